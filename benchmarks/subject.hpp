// benchmarks/subject.hpp — a codec with its buffers and state, and its minimal memory traffic.
#pragma once

#include "../examples/own/chunk_max.hpp"
#include "../examples/own/haar.hpp"
#include "../examples/own/nearest4.hpp"
#include "../examples/train/reference_codecs.hpp"
#include "values.hpp"
#include "yardstick.hpp"

#include <pith/codec/compact.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/parse.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// The codecs that are measured by default.
inline constexpr char const* default_codecs[] = {"sign",
                                                 "scaled_sign",
                                                 "ef(scaled_sign)",
                                                 "qsgd<8>",
                                                 "ef(qsgd<8>)",
                                                 "nearest4",
                                                 "ef(nearest4)",
                                                 "chunk_max",
                                                 "ef(chunk_max)",
                                                 "haar|qsgd<4>",
                                                 "hadamard|qsgd<4>",
                                                 "top_k(0.01)",
                                                 "ef(top_k(0.01))",
                                                 "cast<half>",
                                                 "cast<bfloat16>",
                                                 "random_k(0.1)",
                                                 "power_sgd(4)",
                                                 "ef(power_sgd(4))",
                                                 "top_k(0.01,packed_indices)",
                                                 "chunk_top_k(64,4096)",
                                                 "ef(qsgd<8>,residual<bfloat16>)",
                                                 "top_k(0.01)|qsgd<8>",
                                                 "ef(top_k(0.01)|qsgd<8>)"};

/// The codec of a text. Besides texts of parse it supports the stages of examples/own and the methods of pith/comparison.
template <pith::real In, pith::executor E>
pith::any_codec<In, E> codec_of(std::string const& text) {
  if (text == "nearest4") return nearest4();
  if (text == "ef(nearest4)") return pith::error_feedback(nearest4());
  if (text == "chunk_max") return chunk_max();
  if (text == "ef(chunk_max)") return pith::error_feedback(chunk_max());
  if (text == "ef(qsgd<8>,residual<bfloat16>)") {
    return pith::error_feedback(pith::qsgd<8>(), pith::residual<pith::bfloat16>());
  }
  if (text == "haar|qsgd<4>") return haar() | pith::qsgd<4>();
  if (text == "hadamard|qsgd<4>") return pith::hadamard() | pith::qsgd<4>();
  if (text == "hadamard|eden<1>") return pith::hadamard() | pith::eden<1>();
  if (text == "hadamard|eden<2>") return pith::hadamard() | pith::eden<2>();
  if (text == "hadamard|eden<4>") return pith::hadamard() | pith::eden<4>();
  if constexpr (std::same_as<In, float> && std::same_as<E, pith::seq_executor>) {
    if (auto const method = train::reference_codec(text)) return *method;
  }
  return pith::parse<In, E>(text);
}

/// The codec of a text with `sets` payloads and states, and one workspace.
template <pith::real In, pith::executor E>
class subject {
 public:
  using codec_type = pith::any_codec<In, E>;

  subject(E const& exec, std::string const& text, pith::shape const& dims, std::size_t sets)
      : exec_(exec),
        dims_(dims),
        codec_(codec_of<In, E>(text)),
        payload_(exec, pith::payload_bytes<In>(codec_, dims), sets),
        scratch_(exec, pith::workspace_bytes<In>(exec, codec_, dims, summed_ranks)) {
    for (std::size_t i = 0; i < sets; ++i) states_.push_back(pith::make_state<In>(exec, codec_, dims));
  }

  /// The ranks whose payloads decode_ranks adds up.
  static constexpr unsigned summed_ranks = 4;

  /// Whether payloads are gathered, not summed in flight.
  bool sums() const { return codec_.rounds(dims_, summed_ranks) == 1 && moves().how == pith::transport::all_gather; }

  void encode(std::size_t set, pith::span_on<E, In const> x) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    pith::compress(exec_, codec_, x, payload_[set], states_[set], ws);
    exec_.wait();
  }
  /// Copies the payload of a set to every rank's payload. The first call allocates the payloads of all ranks.
  void gather(std::size_t set) {
    if (!gathered_) gathered_.emplace(exec_, summed_ranks * stride(), states_.size());
    for (unsigned rank = 0; rank < summed_ranks; ++rank) {
      exec_.copy((*gathered_)[set].data() + rank * stride(), payload_[set].data(), payload_bytes());
    }
    exec_.wait();
  }
  void decode_ranks(std::size_t set, pith::span_on<E, In> x) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    auto& state = states_[set];
    codec_.absorb(state.context_on(exec_, ws, summed_ranks), 0, {(*gathered_)[set], stride()}, {x.data(), x.size()},
                  state.replicated(), state.local());
    exec_.wait();
  }
  void decode(std::size_t set, pith::span_on<E, In> x) {
    auto ws = pith::workspace_on<E>(scratch_.view());
    pith::decompress(exec_, codec_, payload_[set], x, states_[set], ws);
    exec_.wait();
  }

  std::size_t payload_bytes() const { return payload_[0].size(); }
  /// The used bytes of the first payload, if the size varies.
  std::size_t used_bytes() const {
    return pith::used_bytes<In>(exec_, codec_, dims_, pith::span_on<E, std::byte const>(payload_[0]));
  }
  std::size_t workspace_bytes() const { return pith::workspace_bytes<In>(exec_, codec_, dims_); }
  std::size_t replicated_bytes() { return bytes_of(states_[0].replicated()); }
  std::size_t local_bytes() { return bytes_of(states_[0].local()); }

  /// Values and replicated state are read; rank-local state (a residual) is read and written.
  traffic encoding() {
    return {sizes(values_bytes() + replicated_bytes() + local_bytes()), sizes(payload_bytes() + local_bytes())};
  }
  traffic summing() { return {sizes(summed_ranks * payload_bytes() + replicated_bytes()), sizes(values_bytes())}; }
  traffic decoding() { return {sizes(payload_bytes() + replicated_bytes()), sizes(values_bytes())}; }

 private:
  pith::transfer moves() const { return codec_.template round<In>(0, dims_, summed_ranks); }
  std::size_t stride() const { return pith::detail::padded_bytes(moves()); }
  static double sizes(std::size_t bytes) { return static_cast<double>(bytes); }
  static std::size_t bytes_of(auto& state) {
    auto count = pith::detail::field_counter();
    state.fields(count);
    return count.bytes;
  }
  std::size_t values_bytes() const { return states_[0].dims().n * sizeof(In); }

  E exec_;
  pith::shape dims_;
  codec_type codec_;
  rotated<std::byte, E> payload_;
  std::optional<rotated<std::byte, E>> gathered_;
  pith::buffer<std::byte, E> scratch_;
  std::vector<pith::codec_state<In, codec_type, E>> states_;
};

}  // namespace bench
