// pith/exchange/reduce_scatter_mean.hpp — a compressed reduce-scatter of the mean gradient, for sharded training.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/collective/tensor_parts.hpp>
#include <pith/comm/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

/// The workspace bytes that `reduce_scatter_mean` needs: two payloads of the whole tensor, and the scratch to decode a
/// part.
template <class In, class C, executor E>
std::size_t reduce_scatter_mean_workspace_bytes(E const& exec, C const& codec, tensor_parts const& over,
                                                unsigned ranks) {
  return 2 * scratch_for<std::byte>(ranks * detail::part_bytes<In>(codec, over)) +
         detail::part_mean_scratch_bytes<In>(codec, exec, over, ranks) + detail::scratch_alignment;
}

/// Sets `part` to this rank's part of the mean of all ranks' decoded gradients. `reduce_scatter_mean` is the first half
/// of `two_shot`. All ranks call `reduce_scatter_mean` with the same codec, parts and seed.
///
///   requires    parts from parts_for, or of a size that is a multiple of 8; a codec without state
///               (std::invalid_argument); a `state` that was made for the whole tensor, and that provides the step
///               counter; ws of reduce_scatter_mean_workspace_bytes<In>(exec, codec, over, comm.size()) bytes
///   complexity  one all-to-all, in which each of N ranks sends (N - 1) / N of a tensor's payload; encodes n elements
///               and decodes n
template <class In, executor E, class Comm, class C>
void reduce_scatter_mean(E const& exec, Comm& comm, C const& codec, tensor_parts const& over,
                         span_on<E, std::type_identity_t<In> const> gradient, span_on<E, std::type_identity_t<In>> part,
                         codec_state<In, C, E>& state, workspace_on<E>& ws) {
  static_assert(calls_of<Comm, E>.all_to_all,
                "pith: reduce_scatter_mean needs a communicator with all_to_all(exec, span<std::byte const>, "
                "span<std::byte>)");
  auto const environment = detail::default_float_environment();
  auto const cx = state.context_on(exec, ws, comm.size());
  auto const* const verb = "reduce_scatter_mean";
  detail::require_parts(verb, codec, over, cx.id, comm.rank(), comm.size());
  detail::require_size(verb, "the state's shape", over.n, state.dims().n);
  detail::require_values(verb, "gradient", over.n, gradient);
  detail::require_values(verb, "part", over.dims(comm.rank()).n, part);
  if (detail::state_bytes(state.replicated()) + detail::state_bytes(state.local()) != 0)
    throw std::invalid_argument(detail::sentence(verb, ": codec must have no state, got ", codec.name()));
  ws.require(verb, "reduce_scatter_mean_workspace_bytes",
             reduce_scatter_mean_workspace_bytes<In>(exec, codec, over, comm.size()));
  state.advance(exec);
  auto const scope = ws.mark();
  auto const bytes = comm.size() * detail::part_bytes<In>(codec, over);
  auto const out = ws.take_bytes(bytes);
  auto const in = ws.take_bytes(bytes);
  detail::encode_parts<In>(codec, cx, over, {gradient.data(), over.n}, out, state.replicated(), state.local());
  comm.all_to_all(exec, span_on<E, std::byte const>(out), in).wait(exec);
  detail::decode_part_mean<In>(codec, cx, over, {in, bytes / comm.size()}, values_on<E, In>{part.data(), part.size()},
                               state.replicated());
}

}}  // namespace pith::PITH_ABI
