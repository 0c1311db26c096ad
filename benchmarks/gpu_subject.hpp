// benchmarks/gpu_subject.hpp — a codec of floats on a stream with its buffers, and its minimal traffic.
#pragma once

#include "values.hpp"
#include "yardstick.hpp"

#include <pith/codec/compress.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/seq.hpp>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace bench {

/// `sets` payloads and states of a codec, and one workspace. Only download waits.
template <pith::executor E, class C>
class static_subject {
 public:
  static constexpr unsigned summed_ranks = 4;
  static constexpr bool sums = pith::detail::decodes_ranks<C, float, E> || pith::detail::lists_entries<C, float, E>;

  static_subject(E const& exec, C const& codec, pith::shape const& dims, std::size_t sets)
      : exec_(exec),
        codec_(codec),
        payload_(exec, pith::payload_bytes<float>(codec_, dims), sets),
        gathered_(exec, sums ? summed_ranks * stride() : 0, sets),
        scratch_(exec, pith::workspace_bytes<float>(exec, codec_, dims, summed_ranks)) {
    for (std::size_t i = 0; i < sets; ++i) states_.push_back(pith::make_state<float>(exec, codec_, dims));
  }

  void encode(std::size_t set, pith::span_on<E, float const> x) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    pith::compress(exec_, codec_, x, payload_[set], states_[set], ws);
  }
  void decode(std::size_t set, pith::span_on<E, float> y) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    pith::decompress(exec_, codec_, payload_[set], y, states_[set], ws);
  }
  /// Copies the payload of a set to every rank's payload.
  void gather(std::size_t set) {
    for (unsigned rank = 0; rank < summed_ranks; ++rank)
      exec_.copy(gathered_[set].data() + rank * stride(), payload_[set].data(), payload_bytes());
  }
  void decode_ranks(std::size_t set, pith::span_on<E, float> y) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    auto const in = pith::span_on<E, std::byte const>(gathered_[set]);
    auto& state = states_[set];
    pith::detail::decode_mean<float>(codec_, state.context_on(exec_, ws, summed_ranks), {in, stride()},
                                     {y.data(), y.size()}, state.replicated());
  }

  std::size_t payload_bytes() const { return payload_[0].size(); }
  std::vector<std::byte> payload(std::size_t set) const {
    auto bytes = std::vector<std::byte>(payload_bytes());
    exec_.download(bytes.data(), payload_[set].data(), bytes.size());
    return bytes;
  }

  /// Values and replicated state are read; rank-local state (a residual) is read and written.
  traffic encoding() {
    return {sizes(values_bytes() + replicated_bytes() + local_bytes()), sizes(payload_bytes() + local_bytes())};
  }
  traffic decoding() { return {sizes(payload_bytes() + replicated_bytes()), sizes(values_bytes())}; }
  traffic summing() { return {sizes(summed_ranks * payload_bytes() + replicated_bytes()), sizes(values_bytes())}; }

 private:
  static double sizes(std::size_t bytes) { return static_cast<double>(bytes); }
  static std::size_t bytes_of(auto& state) {
    auto count = pith::detail::field_counter();
    state.fields(count);
    return count.bytes;
  }
  std::size_t stride() const { return pith::detail::align_up(payload_bytes(), std::size_t{128}); }
  std::size_t values_bytes() const { return states_[0].dims().n * sizeof(float); }
  std::size_t replicated_bytes() { return bytes_of(states_[0].replicated()); }
  std::size_t local_bytes() { return bytes_of(states_[0].local()); }

  E exec_;
  C codec_;
  rotated<std::byte, E> payload_, gathered_;
  pith::buffer<std::byte, E> scratch_;
  std::vector<pith::codec_state<float, C, E>> states_;
};

/// The payload of the first step on the host.
template <class C>
std::vector<std::byte> payload_of_host(C const& codec, pith::shape const& dims, std::vector<float> const& x) {
  auto host = static_subject<pith::seq_executor, C>(pith::seq, codec, dims, 1);
  host.encode(0, pith::span<float const>(x));
  return host.payload(0);
}

}  // namespace bench
