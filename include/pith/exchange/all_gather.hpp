// pith/exchange/all_gather.hpp — a compressed all-gather of a tensor's parts, for sharded training.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/collective/tensor_parts.hpp>
#include <pith/comm/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

/// The workspace bytes that `all_gather` needs: the received payloads of all parts, the payload of this rank's part,
/// and the codec's scratch for a part.
template <class In, class C, executor E>
std::size_t all_gather_workspace_bytes(E const& exec, C const& codec, tensor_parts const& over, unsigned ranks) {
  auto const part = detail::part_bytes<In>(codec, over);
  return scratch_for<std::byte>(part) + scratch_for<std::byte>(ranks * part) +
         detail::scratch_bytes<In>(codec, exec, over.largest()) + detail::scratch_alignment;
}

/// Encodes this rank's part, and sets `whole` to the decoded parts of all ranks. The result is bitwise equal on all
/// ranks. `all_gather` is the second half of `two_shot`. All ranks call `all_gather` with the same codec, parts and
/// seed.
///
///   requires    parts from parts_for, or of a size that is a multiple of 8; a codec without replicated state, and
///               without feedback that changes means, such as ef_sign (std::invalid_argument); a state that was made
///               for this rank's part, since feedback stores a residual for this part; ws of
///               all_gather_workspace_bytes<In>(exec, codec, over, comm.size()) bytes
///   complexity  one all-gather of the payloads of N parts, one per rank; encodes n / N elements and decodes n
template <class In, executor E, class Comm, class C>
void all_gather(E const& exec, Comm& comm, C const& codec, tensor_parts const& over,
                span_on<E, std::type_identity_t<In> const> part, span_on<E, std::type_identity_t<In>> whole,
                codec_state<In, C, E>& state, workspace_on<E>& ws) {
  static_assert(detail::has_all_gather<Comm, E>,
                "pith: all_gather needs a communicator with all_gather(exec, span<std::byte const>, span<std::byte>)");
  auto const environment = detail::default_float_environment();
  auto const* const verb = "all_gather";
  auto const cx = state.context_on(exec, ws, comm.size());
  auto const own = over.dims(comm.rank());
  detail::require_parts(verb, codec, over, cx.id, comm.rank(), comm.size());
  detail::require_size(verb, "the state's shape", own.n, state.dims().n);
  detail::require_values(verb, "part", own.n, part);
  detail::require_values(verb, "whole", over.n, whole);
  if (detail::state_bytes(state.replicated()) != 0)
    throw std::invalid_argument(detail::sentence(verb, ": codec must have no replicated state, got ", codec.name()));
  detail::require(!codec.changes_mean(), verb, ": the feedback of the codec must not change means, got ", codec.name());
  ws.require(verb, "all_gather_workspace_bytes", all_gather_workspace_bytes<In>(exec, codec, over, comm.size()));
  state.advance(exec);
  auto const scope = ws.mark();
  auto const bytes = detail::part_bytes<In>(codec, over);
  auto const mine = ws.take_bytes(bytes), all = ws.take_bytes(bytes * comm.size());
  detail::encode_mean_part<In>(codec, cx, over, {part.data(), own.n}, mine, state.replicated(), state.local());
  comm.all_gather(exec, span_on<E, std::byte const>(mine), all).wait(exec);
  detail::decode_parts<In>(codec, cx, over, {all, bytes}, values_on<E, In>{whole.data(), over.n}, state.replicated());
}

}}  // namespace pith::PITH_ABI
