// tests/fuzz/harness.hpp — a codec opens frames into memory with guards around it.
#pragma once

#include <pith/adaptor/checked.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/exec/seq.hpp>
#include <pith/wire/frame.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "input.hpp"
#include "support/parsed.hpp"

namespace fuzz {

namespace wire = pith::wire;
template <class T>
using any_codec = pith::any_codec<T, pith::seq_executor>;

/// A gradient between guard bytes; all of it is the given byte at first.
template <class T>
class guarded {
 public:
  guarded(std::uint64_t n, int fill) : memory_(n + 2 * guard) {
    std::memset(static_cast<void*>(memory_.data()), fill, memory_.size() * sizeof(T));
    untouched_ = memory_;
  }
  pith::span<T> view() { return {memory_.data() + guard, memory_.size() - 2 * guard}; }
  pith::span<std::byte const> bytes() const {
    return {reinterpret_cast<std::byte const*>(memory_.data() + guard), (memory_.size() - 2 * guard) * sizeof(T)};
  }

  void require_guards() const {
    auto const size = guard * sizeof(T);
    auto const after = memory_.size() - guard;
    require(std::memcmp(memory_.data(), untouched_.data(), size) == 0, "a write before the gradient");
    require(std::memcmp(memory_.data() + after, untouched_.data() + after, size) == 0, "a write behind the gradient");
  }
  void require_untouched() const {
    auto const size = memory_.size() * sizeof(T);
    require(std::memcmp(memory_.data(), untouched_.data(), size) == 0, "a refused frame changed the gradient");
  }

 private:
  static constexpr std::size_t guard = 64;
  std::vector<T> memory_, untouched_;
};

/// Opens frames of one tensor, whatever its elements.
class opener {
 public:
  virtual ~opener() = default;

  /// Decodes twice: nothing else is written, and the bytes are equal. Whether the frame was accepted.
  virtual bool open(pith::span<std::byte const> frame) = 0;
  /// A frame of this payload, cut or filled up with zeros, that the codec must accept. The step is any number.
  virtual std::vector<std::byte> framed(pith::span<std::byte const> payload) const = 0;
};

template <class T>
class opener_of final : public opener {
 public:
  opener_of(any_codec<T> codec, pith::shape dims)
      : codec_(std::move(codec)),
        state_(pith::make_state<T>(pith::seq, codec_, dims, {0x5eed, 1, 0})),
        memory_(wire::workspace_bytes<T>(pith::seq, codec_, dims)) {}

  bool open(pith::span<std::byte const> frame) override {
    auto a = guarded<T>(dims().n, 0x55), b = guarded<T>(dims().n, 0xaa);
    auto const first = open_into(frame, a), second = open_into(frame, b);
    require(first == second, "a frame was refused once");
    if (!first) return false;
    require(a.bytes().size() == 0 || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0,
            "two decodings differ");
    return true;
  }

  std::vector<std::byte> framed(pith::span<std::byte const> payload) const override {
    auto h = wire::header{codec_.name(), pith::kind_of<T>(), dims(), 0, {0x5eed, 1, 0}, 0, 0};
    h.payload_bytes = pith::payload_bytes<T>(codec_, dims());
    auto frame = std::vector<std::byte>(h.bytes() + h.payload_bytes);
    auto const size = std::min<std::size_t>(payload.size(), h.payload_bytes);
    if (size > 0) std::memcpy(frame.data() + h.bytes(), payload.data(), size);
    h.payload_checksum = pith::checksum(pith::span<std::byte const>(frame).subspan(h.bytes()));
    h.step = h.payload_checksum;
    wire::write_header(h, pith::span<std::byte>(frame));
    return frame;
  }

 private:
  pith::shape const& dims() const { return state_.dims(); }

  bool open_into(pith::span<std::byte const> frame, guarded<T>& x) {
    auto ws = pith::workspace<>(pith::span<std::byte>(memory_));
    try {
      wire::open(pith::seq, codec_, frame, x.view(), state_, ws);
    } catch (pith::wire_error const&) {
      x.require_untouched();
      return false;
    }
    x.require_guards();
    return true;
  }

  any_codec<T> codec_;
  pith::codec_state<T, any_codec<T>, pith::seq_executor> state_;
  std::vector<std::byte> memory_;
};

}  // namespace fuzz
