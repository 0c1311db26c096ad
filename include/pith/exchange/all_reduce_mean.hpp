// pith/exchange/all_reduce_mean.hpp — the compressed mean of one tensor over all ranks.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/comm/sub_communicators.hpp>
#include <pith/exchange/detail/move_bytes.hpp>
#include <pith/exchange/detail/narrow_mean.hpp>

#include <cstdint>
#include <stdexcept>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Throws std::invalid_argument if a round needs a sub-communicator that `comms` lacks.
template <class In, class Comm, class C>
void require_grouped(C const& codec, shape const& dims, sub_communicators<Comm> const& comms) {
  for (unsigned round = 0; round < codec.rounds(dims, comms.size()); ++round) {
    if (comms.has(transfer_of<In>(codec, round, dims, comms.size()).among)) continue;
    throw std::invalid_argument(sentence("all_reduce_mean: ", codec.name(), " exchanges within groups of ranks: pass ",
                                         "make_sub_communicators<In>(comm, codec, dims) as the communicator"));
  }
}

/// Runs a round whose transfer is a mean. The mean needs two transfers: an all-to-all, then an all-gather.
template <class In, class E, class Comm, class C>
void run_mean(E const& exec, Comm& comm, C const& codec, unsigned round, transfer const& moves, values_on<E, In> x,
              codec_state<In, C, E>& state, context<In, E> const& cx) {
  auto const bytes = bytes_of(moves, cx.ranks);
  auto const all = cx.ws.take_bytes(bytes.sent), pieces = cx.ws.take_bytes(bytes.received);
  auto const out = all.first(moves.bytes()), part = all.first(all.size() / comm.size());
  clear_padding<E>(exec, all, out.size());
  produce<In>(codec, cx, round, values_on<E, In const>(x), out, state.replicated(), state.local());
  move_bytes(exec, comm, transport::all_to_all, moves.kind, 0, all, pieces).wait(exec);
  average(exec, moves.kind, pieces, comm.size(), part.data());
  move_bytes(exec, comm, transport::all_gather, moves.kind, 0, part, pieces).wait(exec);
  absorb<In>(codec, cx, round, received_on<E>{pieces.first(out.size())}, x, state.replicated(), state.local());
}

/// Runs a round of one tensor: produces, transfers, waits and absorbs.
template <class In, class E, class Comm, class C>
void run_round(E const& exec, sub_communicators<Comm>& comms, C const& codec, unsigned round, values_on<E, In> x,
               codec_state<In, C, E>& state, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const cx = state.context_on(exec, ws, comms.size());
  auto const moves = transfer_of<In>(codec, round, cx.dims, cx.ranks);
  if (moves.how == transport::all_reduce_mean)
    return run_mean<In>(exec, comms.of(moves.among), codec, round, moves, x, state, cx);
  auto const ranks = moves.among.ranks(comms.size());
  auto const bytes = bytes_of(moves, comms.size());
  auto const sent = ws.take_bytes(bytes.sent), gathered = ws.take_bytes(bytes.received);
  auto const out = sent.first(moves.bytes() * pieces(moves.how, ranks));
  clear_padding<E>(exec, sent, out.size());
  produce<In>(codec, cx, round, values_on<E, In const>(x), out, state.replicated(), state.local());
  move_bytes(exec, comms.of(moves.among), moves.how, moves.kind, moves.distance, sent, gathered).wait(exec);
  absorb<In>(codec, cx, round, moved<E>(moves.how, sent, gathered, ranks), x, state.replicated(), state.local());
}

}  // namespace detail

/// Makes the sub-communicators that `all_reduce_mean` needs for the rounds of `codec`.
template <class In, class Comm, class C>
sub_communicators<Comm> make_sub_communicators(Comm& comm, C const& codec, shape const& dims) {
  auto made = sub_communicators<Comm>(comm);
  for (unsigned round = 0; round < codec.rounds(dims, comm.size()); ++round)
    made.add(detail::transfer_of<In>(codec, round, dims, comm.size()).among);
  return made;
}

/// Replaces `gradient` by the decoded mean of all ranks' gradients. All ranks call `all_reduce_mean` with the same
/// codec, shape and seed. Unlike gradient_exchange, this function does not check that codec, shape and seed are equal
/// on all ranks.
///
///   requires    ws of workspace_bytes<In>(exec, codec, dims, comm.size()) bytes. A codec with transfers within
///               subgroups, such as hierarchical, needs sub-communicators, which make_sub_communicators<In>(comm,
///               codec, dims) creates. Pass the sub-communicators instead of comm
///   complexity  a summable codec needs one all-reduce, a collective codec needs its own rounds, and any other codec
///               needs one all-gather. The function itself does not allocate
///   errors      if all_reduce_mean throws std::invalid_argument, the state is unchanged. After an error of the
///               communicator, gradient and state have unspecified values
template <class In, executor E, class Comm, class C>
void all_reduce_mean(E const& exec, sub_communicators<Comm>& comms, C const& codec,
                     span_on<E, std::type_identity_t<In>> gradient, codec_state<In, C, E>& state, workspace_on<E>& ws) {
  explain_communicator<Comm, E>();
  auto const environment = detail::default_float_environment();
  auto const& dims = state.dims();
  auto const x = values_on<E, In>{gradient.data(), dims.n};
  auto const ranks = comms.size();
  detail::require_values("all_reduce_mean", "gradient", dims.n, gradient);
  detail::require(state.id().rank == comms.rank(), "all_reduce_mean: the state's rank must be ", comms.rank(), ", got ",
                  state.id().rank, ": pass the communicator's rank to make_state");
  detail::require_served<In, E>("all_reduce_mean", comms.all(), codec, dims);
  detail::require_grouped<In>(codec, dims, comms);
  codec.require_states(state.replicated(), state.local());
  ws.require("all_reduce_mean", "workspace_bytes", workspace_bytes<In>(exec, codec, dims, ranks));
  state.advance(exec);
  for (unsigned round = 0; round < codec.rounds(dims, ranks); ++round)
    detail::run_round<In>(exec, comms, codec, round, x, state, ws);
}
template <class In, executor E, class Comm, class C>
void all_reduce_mean(E const& exec, Comm& comm, C const& codec, span_on<E, std::type_identity_t<In>> gradient,
                     codec_state<In, C, E>& state, workspace_on<E>& ws) {
  auto comms = sub_communicators<Comm>(comm);
  all_reduce_mean<In>(exec, comms, codec, gradient, state, ws);
}

/// The overload for wrong arguments. A call of this overload fails to compile, and the error states the reason.
template <executor E, class Comm, class C, class X, class S>
  requires(!detail::writable_by<X, S, C, E>)
void all_reduce_mean(E const&, Comm&, C const&, X&&, S&, workspace_on<E>&) { detail::explain_arguments<X, S, C, E>(); }

}}  // namespace pith::PITH_ABI
