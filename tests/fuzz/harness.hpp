// tests/fuzz/harness.hpp — a codec from its text, opened into memory with guards around it.
#pragma once

#include <pith/parse.hpp>
#include <pith/wire/checked.hpp>
#include <pith/wire/frame.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace fuzz {

namespace wire = pith::wire;
using any_codec = pith::any_codec<float, pith::seq_executor>;

inline void require(bool holds, char const* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// A gradient between guard bytes; all of it is the given byte at first.
class guarded {
 public:
  guarded(std::uint64_t n, int fill) : memory_(n + 2 * guard) {
    std::memset(memory_.data(), fill, memory_.size() * sizeof(float));
    untouched_ = memory_;
  }
  pith::span<float> view() { return {memory_.data() + guard, memory_.size() - 2 * guard}; }
  pith::span<std::byte const> bytes() const {
    return {reinterpret_cast<std::byte const*>(memory_.data() + guard), (memory_.size() - 2 * guard) * sizeof(float)};
  }

  void require_guards() const {
    auto const size = guard * sizeof(float);
    auto const after = memory_.size() - guard;
    require(std::memcmp(memory_.data(), untouched_.data(), size) == 0, "a write before the gradient");
    require(std::memcmp(memory_.data() + after, untouched_.data() + after, size) == 0, "a write behind the gradient");
  }
  void require_untouched() const {
    auto const size = memory_.size() * sizeof(float);
    require(std::memcmp(memory_.data(), untouched_.data(), size) == 0, "a refused frame changed the gradient");
  }

 private:
  static constexpr std::size_t guard = 64;
  std::vector<float> memory_, untouched_;
};

/// All that opening frames of one tensor takes.
class opener {
 public:
  opener(any_codec codec, pith::shape dims)
      : codec_(std::move(codec)),
        state_(pith::make_state<float>(pith::seq, codec_, dims, {0x5eed, 1, 0})),
        memory_(wire::workspace_bytes<float>(pith::seq, codec_, dims)) {}

  any_codec const& codec() const { return codec_; }
  pith::shape const& dims() const { return state_.dims(); }

  /// Decodes twice: nothing else is written, and the bytes are equal. Whether the frame was accepted.
  bool open(pith::span<std::byte const> frame) {
    auto a = guarded(dims().n, 0x55), b = guarded(dims().n, 0xaa);
    auto const first = open_into(frame, a), second = open_into(frame, b);
    require(first == second, "a frame was refused once");
    if (!first) return false;
    require(a.bytes().size() == 0 || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0,
            "two decodings differ");
    return true;
  }

 private:
  bool open_into(pith::span<std::byte const> frame, guarded& x) {
    auto ws = pith::workspace<>(memory_);
    try {
      wire::open(pith::seq, codec_, frame, x.view(), state_, ws);
    } catch (pith::wire_error const&) {
      x.require_untouched();
      return false;
    }
    x.require_guards();
    return true;
  }

  any_codec codec_;
  pith::codec_state<float, any_codec, pith::seq_executor> state_;
  std::vector<std::byte> memory_;
};

}  // namespace fuzz
