// benchmarks/peers/contender.hpp — a codec that is compared with peers: its payloads, states and error.
#pragma once

#include "../values.hpp"
#include "../yardstick.hpp"

#include <pith/codec/compress.hpp>

#include <cstddef>
#include <numeric>
#include <vector>

namespace bench {

/// Codec C with one payload and one state per set of buffers.
template <class C, pith::executor E>
class contender {
 public:
  contender(E const& exec, C const& codec, pith::shape const& dims, std::size_t sets)
      : exec_(exec),
        codec_(codec),
        payloads_(exec, pith::payload_bytes<float>(codec, dims), sets),
        scratch_(exec, pith::workspace_bytes<float>(exec, codec, dims)) {
    for (std::size_t set = 0; set < sets; ++set) states_.push_back(pith::make_state<float>(exec, codec, dims));
  }

  void encode(std::size_t set, pith::span_on<E, float const> x) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    pith::compress(exec_, codec_, x, payloads_[set], states_[set], ws);
    exec_.wait();
  }
  void decode(std::size_t set, pith::span_on<E, float> x) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    pith::decompress(exec_, codec_, payloads_[set], x, states_[set], ws);
    exec_.wait();
  }

  std::size_t payload_bytes() const { return payloads_[0].size(); }

  /// |steps x - the sum of `steps` decoded payloads|^2 / |x|^2: the residual's energy, with feedback. Overwrites y.
  double error(unsigned steps, std::vector<float> const& values, pith::span_on<E, float const> x,
               pith::span_on<E, float> y) {
    auto missing = std::vector<double>(values.size()), energy = missing;
    auto decoded = values;
    for (unsigned step = 0; step < steps; ++step) {
      encode(0, x);
      decode(0, y);
      exec_.download(decoded.data(), y.data(), y.size_bytes());
      for (std::size_t i = 0; i < values.size(); ++i) missing[i] += double{values[i]} - double{decoded[i]};
    }
    for (std::size_t i = 0; i < values.size(); ++i) energy[i] = double{values[i]};
    return squares(missing) / squares(energy);
  }

 private:
  static double squares(std::vector<double> const& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

  E exec_;
  C codec_;
  rotated<std::byte, E> payloads_;
  pith::buffer<std::byte, E> scratch_;
  std::vector<pith::codec_state<float, C, E>> states_;
};

}  // namespace bench
