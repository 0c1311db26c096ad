// tests/fuzz/input.hpp — the bytes that a fuzzer is given, one number after another.
#pragma once

#include <pith/core/span.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace fuzz {

inline void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// Zeros follow after its end.
class input {
 public:
  input(std::uint8_t const* data, std::size_t size) : left_(reinterpret_cast<std::byte const*>(data), size) {}

  bool is_empty() const { return left_.size() == 0; }

  template <class T>
  T take() {
    auto value = T();
    auto const bytes = take_bytes(sizeof value);
    if (bytes.size() > 0) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  unsigned take_byte() { return take<std::uint8_t>(); }
  /// Below `count`, which is not 0.
  std::size_t take_below(std::size_t count) {
    return count <= 256 ? take_byte() % count : take<std::uint16_t>() % count;
  }

  pith::span<std::byte const> take_bytes(std::size_t most) {
    auto const taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

 private:
  pith::span<std::byte const> left_;
};

}  // namespace fuzz
