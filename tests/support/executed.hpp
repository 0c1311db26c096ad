// tests/support/executed.hpp — all bytes of a codec on an executor: payloads, decoded tensors, states.
#pragma once

#include <pith/codec/compress.hpp>

#include "support/vectors.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace support {

/// Appends bytes of an executor's memory to `bytes`.
template <pith::executor E>
class recorder final : public pith::field_visitor {
 public:
  recorder(E const& exec, std::vector<std::byte>& bytes) : exec_(exec), bytes_(bytes) {}

  /// Not inlined, because g++ 12 then warns that the vector's growth exceeds its memory.
  PITH_NOINLINE void visit(void* data, std::size_t size) override {
    auto field = std::vector<std::byte>(size);
    exec_.download(field.data(), data, size);
    bytes_.insert(bytes_.end(), field.begin(), field.end());
  }

 private:
  E const& exec_;
  std::vector<std::byte>& bytes_;
};

/// A codec with its buffers on an executor, for one tensor; by default of normal numbers.
template <class In, pith::executor E, class C>
class execution {
 public:
  execution(E const& exec, C codec, pith::shape dims)
      : execution(exec, codec, dims, narrow<In>(normal_vector(dims.n, 77))) {}
  execution(E const& exec, C codec, pith::shape dims, std::vector<In> const& x)
      : exec_(exec),
        codec_(std::move(codec)),
        state_(pith::make_state<In>(exec, codec_, dims, {0x5eed, 3, 1})),
        x_(exec, dims.n),
        decoded_(exec, dims.n),
        payload_(exec, pith::payload_bytes<In>(codec_, dims)),
        scratch_(exec, pith::workspace_bytes<In>(exec, codec_, dims)) {
    exec_.upload(x_.data(), x.data(), x_.size_bytes());
    exec_.wait();
  }

  /// Another step: compresses, and decompresses the payload.
  void step() {
    auto ws = pith::workspace_on<E>(scratch_.view());
    pith::compress(exec_, codec_, pith::span_on<E, In const>(x_.view()), payload_.view(), state_, ws);
    pith::decompress(exec_, codec_, pith::span_on<E, std::byte const>(payload_.view()), decoded_.view(), state_, ws);
  }

  std::vector<In> decoded() const {
    auto x = std::vector<In>(decoded_.size());
    exec_.download(x.data(), decoded_.data(), decoded_.size_bytes());
    return x;
  }

  /// The payload, the decoded tensor and the state, one after another.
  std::vector<std::byte> bytes() {
    auto all = std::vector<std::byte>();
    auto record = recorder<E>(exec_, all);
    record(payload_);
    record(decoded_);
    state_.fields(record);
    return all;
  }

 private:
  E exec_;
  C codec_;
  pith::codec_state<In, C, E> state_;
  pith::buffer<In, E> x_, decoded_;
  pith::buffer<std::byte, E> payload_, scratch_;
};

/// The bytes of a codec in two steps.
template <class In, pith::executor E, class C>
std::vector<std::byte> executed(E const& exec, C const& codec, pith::shape dims) {
  auto run = execution<In, E, C>(exec, codec, dims);
  run.step();
  auto bytes = run.bytes();
  run.step();
  auto const second = run.bytes();
  bytes.insert(bytes.end(), second.begin(), second.end());
  return bytes;
}

}  // namespace support
