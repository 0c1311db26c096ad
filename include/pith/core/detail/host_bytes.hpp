// pith/core/detail/host_bytes.hpp — serialisation of numbers to bytes in host memory, and the inverse.
#pragma once

#include <pith/core/error.hpp>
#include <pith/core/span.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

class byte_writer {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(T const& value) { append(&value, sizeof value); }
  /// Writes the number of values, then the values.
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put_all(std::vector<T> const& values) {
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size() * sizeof(T));
  }

  std::vector<std::byte> bytes;

 private:
  void append(void const* from, std::size_t size) {
    auto const at = bytes.size();
    bytes.resize(at + size);
    if (size > 0) std::memcpy(bytes.data() + at, from, size);
  }
};

/// Reads bytes that a byte_writer wrote. If the bytes are too few or too many, throws std::invalid_argument, whose
/// message begins with `who`.
class byte_reader {
 public:
  byte_reader(char const* who, span<std::byte const> bytes) : who_(who), total_(bytes.size()), left_(bytes) {}

  template <class T>
    requires(std::is_trivially_copyable_v<T>)
  T take() {
    auto value = T();
    std::memcpy(&value, next(1, sizeof value), sizeof value);
    return value;
  }
  template <class T>
    requires(std::is_trivially_copyable_v<T>)
  std::vector<T> take_all() {
    auto const count = take<std::uint64_t>();
    auto const* const from = next(count, sizeof(T));
    auto values = std::vector<T>(count);
    if (count > 0) std::memcpy(values.data(), from, count * sizeof(T));
    return values;
  }

  void expect_end() const {
    require(left_.size() == 0, who_, ": the state must have ", total_ - left_.size(), " bytes, got ", total_);
  }

 private:
  std::byte const* next(std::uint64_t count, std::size_t size) {
    require(count <= left_.size() / size, who_, ": the state must have ", count, " more values of ", size,
            " bytes, got ", left_.size(), " bytes");
    auto const* const at = left_.data();
    left_ = left_.subspan(count * size, left_.size() - count * size);
    return at;
  }

  char const* who_;
  std::size_t total_;
  span<std::byte const> left_;
};

}}}  // namespace pith::PITH_ABI::detail
