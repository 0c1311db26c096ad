// pith/codec/compressor.hpp — a codec for one tensor, together with its state, payload and workspace.
#pragma once

#include <pith/codec/any_codec.hpp>
#include <pith/codec/compress.hpp>
#include <pith/codec/detail/saved_state.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/codec/detail/state_words.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/exec/seq.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A codec with the state, payload and workspace for one tensor on one rank. `compressor<In>(codec, dims)`
/// erases the codec's type, and `make_compressor<In>(exec, codec, dims)` keeps the type.
///
///     auto c = pith::compressor<float>(pith::seq, pith::error_feedback(pith::top_k(0.01)), pith::vector(n));
///     send(c.compress(gradient), c.step());
///     c.decompress(received, gradient, from_rank, step);   // `step` is the step() of the sender
///
/// The random numbers of an encoding depend on its step, and some decoders draw these numbers again. So a receiver
/// needs the step of a payload. Frames (wire/frame.hpp) contain this step.
///
///   owns        the codec, a copy of the executor, and all memory, which the constructor allocates. The type is
///               move-only
///   state       that of the codec; export_state saves it, import_state restores it
///   complexity  compress and decompress do not allocate. Memory is payload_bytes(dims) + workspace_bytes(dims) bytes,
///               plus the state
///   errors      std::invalid_argument if a span has the wrong size, or if the step of a payload is unknown. Then
///               neither the object nor the spans change
///   requires    only one thread at a time may use the object
template <real In, class C = any_codec<In>, executor E = seq_executor>
class compressor {
 public:
  /// `owner` contains the seed, tensor and rank, on which the codec's random numbers depend.
  compressor(E const& exec, C codec, shape const& dims, tensor_id const& owner = {})
      : exec_(exec),
        codec_(std::move(codec)),
        state_(make_state<In>(exec_, codec_, dims, owner)),
        payload_(exec_, pith::payload_bytes<In>(codec_, dims)),
        scratch_(exec_, workspace_bytes<In>(exec_, codec_, dims)),
        sent_step_(exec_, 1) {}
  /// Makes a compressor that runs on the calling thread.
  compressor(C codec, shape const& dims, tensor_id const& owner = {}) requires std::same_as<E, seq_executor>
      : compressor(seq, std::move(codec), dims, owner) {}

  /// Begins the next step and encodes `x`, which has dims().n elements. The returned payload is valid until the next
  /// call.
  span_on<E, std::byte const> compress(span_on<E, In const> x) {
    auto ws = workspace_on<E>(scratch_.view());
    pith::compress(exec_, codec_, x, payload_.view(), state_, ws);
    return payload();
  }

  /// Decodes the payload that rank `from` compressed in its step number `step` into `x`. The sender's `step()` returns
  /// this number after compress(). A compressor that only decodes payloads needs no steps of its own.
  void decompress(span_on<E, std::byte const> payload, span_on<E, In> x, std::uint16_t from, std::uint64_t step) {
    detail::require(step > 0, "compressor::decompress: step must be at least 1, got 0: pass the sender's step()");
    exec_.for_each_index(1, detail::set_value<std::uint64_t>{sent_step_.data(), step});
    auto id = state_.id();
    id.step = sent_step_.data();
    id.rank = from;
    auto ws = workspace_on<E>(scratch_.view());
    detail::decompress_as<In>(exec_, codec_, payload, x, state_, ws, id);
  }
  /// Decodes a payload of rank `from` into `x`. The payload must be of this compressor's current step.
  void decompress(span_on<E, std::byte const> payload, span_on<E, In> x, std::uint16_t from) {
    require_begun();
    auto ws = workspace_on<E>(scratch_.view());
    pith::decompress(exec_, codec_, payload, x, state_, ws, from);
  }
  /// Decodes a payload that this rank compressed.
  void decompress(span_on<E, std::byte const> payload, span_on<E, In> x) { decompress(payload, x, state_.id().rank); }

  /// The payload of the last step.
  span_on<E, std::byte const> payload() const { return payload_.view(); }
  /// The number of the current step: the number of calls of compress(), including those before an import of a state. On
  /// a device, step() waits for the executor.
  std::uint64_t step() const {
    std::uint64_t step = 0;
    exec_.download(&step, state_.steps(), sizeof step);
    return step;
  }

  /// Serialises the state, with a description and a checksum, in the format of docs/state_format.md.
  std::vector<std::byte> export_state() {
    auto saved = detail::field_saver<E>(exec_);
    state_.fields(saved);
    return detail::save_states(state_words(), saved.bytes);
  }
  /// Restores a state that export_state returned for a compressor with the same codec, shape and `owner`. The executor
  /// and the library's minor version may differ. To restore a codec at another rate, use a gradient_exchange.
  ///
  ///   errors      std::invalid_argument, before any change, if the bytes are not a state or are damaged, or if the
  ///               state is of another rank, seed, element type, tensor or codec, or of 2^63 steps or more
  void import_state(span<std::byte const> bytes) {
    constexpr auto* call = "compressor::import_state";
    auto const states = detail::matching_states(call, bytes, state_words());
    detail::require_size(call, "states", detail::state_bytes(state_), states.size(), " bytes");
    detail::require_steps(call, detail::steps_in(states.data()));
    auto loaded = detail::field_loader<E>(exec_, states.data());
    state_.fields(loaded);
    exec_.wait();
  }
  C const& codec() const { return codec_; }
  shape const& dims() const { return state_.dims(); }
  codec_state<In, C, E>& state() { return state_; }

 private:
  /// Throws on a host if compress() was never called, because the step of a payload is then unknown. On a device, this
  /// check would have to wait.
  void require_begun() const {
    if constexpr (detail::host_executor<E>)
      detail::require(*state_.steps() > 0, "compressor::decompress: the step of the payload is unknown, since this ",
                      "compressor has compressed nothing: call decompress(payload, x, from, step) with the sender's ",
                      "step()");
  }
  /// The lines of a saved state's description that must match when the state is restored.
  std::string state_words() {
    auto fields = detail::field_describer();
    state_.fields(fields);
    auto const& [seed, tensor, rank] = state_.owner();
    auto const described =
        detail::text(tensor, " of ", dims().n, " elements in ", dims().rows, " rows, codec ", codec_.name());
    return detail::text("compressor\nrank ", rank, "\nseed ", seed, "\nelements of ", element_name<In>(), '\n',
                        detail::tensor_line(described), '\n', fields.lines);
  }

  E exec_;
  C codec_;
  codec_state<In, C, E> state_;
  buffer<std::byte, E> payload_, scratch_;
  buffer<std::uint64_t, E> sent_step_;  ///< the sender's step of a received payload
};

/// Makes a compressor for gradients with element type In.
template <real In, executor E, class C>
compressor<In, C, E> make_compressor(E const& exec, C codec, shape const& dims, tensor_id const& owner = {}) {
  return {exec, std::move(codec), dims, owner};
}

}}  // namespace pith::PITH_ABI
