// benchmarks/gpu_lanes.hpp — a codec of floats for many tensors on a stream, in lanes.
#pragma once

#include "values.hpp"
#include "yardstick.hpp"

#include <pith/codec/compress.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/lanes.hpp>

#include <cstddef>
#include <vector>

namespace bench {

/// Gradients, payloads, states and workspaces of tensors that are encoded and decoded together.
template <class C>
class lanes_subject {
 public:
  using E = pith::cuda_executor;

  lanes_subject(E const& exec, C const& codec, std::vector<pith::shape> const& tensors) : exec_(exec), codec_(codec) {
    for (auto const& dims : tensors) {
      tensors_.push_back({{exec, dims.n},
                          {exec, pith::payload_bytes<float>(codec, dims)},
                          {exec, pith::workspace_bytes<float>(exec, codec, dims)},
                          pith::make_state<float>(exec, codec, dims)});
      auto const values = normal_values<float>(dims.n);
      exec.upload(tensors_.back().gradient.data(), values.data(), values.size() * sizeof(float));
      exec.wait();
    }
  }

  /// Values are read; a residual is read and written.
  traffic encoding() {
    auto const kept = local_bytes();
    return {values_bytes() + kept, payload_bytes() + kept};
  }
  traffic decoding() const { return {payload_bytes(), values_bytes()}; }

  void encode() {
    auto const work = encoded_.record(exec_);
    for (auto& t : tensors_) {
      auto ws = pith::workspace_on<E>(t.scratch.view());
      pith::compress<float>(work.next_lane(), codec_, t.gradient.view(), t.payload.view(), t.state, ws);
    }
    work.run();
  }
  void decode() {
    auto const work = decoded_.record(exec_);
    for (auto& t : tensors_) {
      auto ws = pith::workspace_on<E>(t.scratch.view());
      pith::decompress<float>(work.next_lane(), codec_, t.payload.view(), t.gradient.view(), t.state, ws);
    }
    work.run();
  }

 private:
  struct tensor {
    pith::buffer<float, E> gradient;
    pith::buffer<std::byte, E> payload, scratch;
    pith::codec_state<float, C, E> state;
  };

  double values_bytes() const {
    return sum([](tensor const& t) { return t.gradient.size_bytes(); });
  }
  double payload_bytes() const {
    return sum([](tensor const& t) { return t.payload.size(); });
  }
  double local_bytes() {
    auto count = pith::detail::field_counter();
    for (auto& t : tensors_) t.state.local().fields(count);
    return static_cast<double>(count.bytes);
  }
  template <class Size>
  double sum(Size const& size_of) const {
    std::size_t all = 0;
    for (auto const& t : tensors_) all += size_of(t);
    return static_cast<double>(all);
  }

  E exec_;
  C codec_;
  std::vector<tensor> tensors_;
  pith::lanes<E> encoded_, decoded_;
};

}  // namespace bench
