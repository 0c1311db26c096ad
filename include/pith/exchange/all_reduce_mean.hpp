// pith/exchange/all_reduce_mean.hpp — the compressed mean of one tensor over all ranks.
#pragma once

#include <pith/codec/compress.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/comm/detail/any_request.hpp>
#include <pith/comm/sub_communicators.hpp>

#include <cstdint>
#include <stdexcept>

namespace pith::inline v0 {

namespace detail {

/// Starts an in-place all-reduce of bytes, which are added as elements of type T.
template <class T, class Comm, class E>
any_request<Comm, E> reduce_as(E const& exec, Comm& comm, span_on<E, std::byte> bytes, reduction how) {
  return comm.all_reduce(exec, span_on<E, T>(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)), how);
}

template <class Comm, class E>
any_request<Comm, E> reduce(E const& exec, Comm& comm, element_kind kind, span_on<E, std::byte> bytes, reduction how) {
  switch (kind) {
    case element_kind::f32: return reduce_as<float>(exec, comm, bytes, how);
    case element_kind::f64: return reduce_as<double>(exec, comm, bytes, how);
    case element_kind::f16: return reduce_as<half>(exec, comm, bytes, how);
    case element_kind::bf16: return reduce_as<bfloat16>(exec, comm, bytes, how);
    case element_kind::i32: return reduce_as<std::int32_t>(exec, comm, bytes, how);
    case element_kind::i8: return reduce_as<std::int8_t>(exec, comm, bytes, how);
    case element_kind::bytes: break;
  }
  throw std::logic_error(sentence("all_reduce_mean: a round that sums must have numbers as elements, got bytes"));
}

/// The name of a function that a transfer needs and the communicator lacks; null if the communicator has all functions.
template <class Comm, class E>
constexpr char const* lacking_call(transfer const& moves) {
  auto const how = moves.how;
  if (how == transport::all_to_all && !has_all_to_all<Comm, E>)
    return "all_to_all(exec, span<std::byte const>, span<std::byte>)";
  if ((how == transport::swap || how == transport::shift) && !has_send_recv<Comm, E>)
    return "send_recv(exec, span<std::byte const>, unsigned, span<std::byte>, unsigned)";
  if (!moves.among.is_all() && !has_same_type_split<Comm>) return "split(unsigned) that returns its own type";
  return nullptr;
}

/// Throws std::invalid_argument if a round of the codec needs a collective that this communicator lacks.
template <class In, class Comm, class E, class C>
void require_served(char const* verb, C const& codec, shape const& dims, unsigned ranks) {
  for (unsigned round = 0; round < codec.rounds(dims, ranks); ++round) {
    auto const* const call = lacking_call<Comm, E>(transfer_of<In>(codec, round, dims, ranks));
    if (call == nullptr) continue;
    throw std::invalid_argument(sentence(verb, ": ", codec.name(), " needs a communicator with ", call));
  }
}

/// Throws std::invalid_argument if a round needs a sub-communicator that was not added.
template <class In, class Comm, class C>
void require_grouped(C const& codec, shape const& dims, sub_communicators<Comm> const& comms) {
  for (unsigned round = 0; round < codec.rounds(dims, comms.size()); ++round) {
    if (comms.has(transfer_of<In>(codec, round, dims, comms.size()).among)) continue;
    throw std::invalid_argument(sentence("all_reduce_mean: ", codec.name(), " exchanges within groups of ranks: pass ",
                                         "make_sub_communicators<In>(comm, codec, dims) as the communicator"));
  }
}

/// Swaps buffers with the rank `rank ^ distance`. A rank whose partner does not exist sends and receives nothing.
template <class Comm, class E>
any_request<Comm, E> swap(E const& exec, Comm& comm, std::uint32_t distance, span_on<E, std::byte> out,
                          span_on<E, std::byte> in) {
  auto const rank = comm.rank(), partner = rank ^ distance;
  if (partner >= comm.size()) return comm.send_recv(exec, span_on<E, std::byte const>(), rank, in.first(0), rank);
  return comm.send_recv(exec, span_on<E, std::byte const>(out), partner, in, partner);
}

/// Sends `out` to the rank (rank + distance) modulo the number of ranks.
template <class Comm, class E>
any_request<Comm, E> shift(E const& exec, Comm& comm, std::uint32_t distance, span_on<E, std::byte> out,
                           span_on<E, std::byte> in) {
  auto const rank = comm.rank(), ranks = comm.size(), by = distance % ranks;
  return comm.send_recv(exec, span_on<E, std::byte const>(out), (rank + by) % ranks, in, (rank + ranks - by) % ranks);
}

/// Starts a transfer of all ranks' payloads. The request uses the memory until it completes.
template <class Comm, class E>
any_request<Comm, E> move_bytes(E const& exec, Comm& comm, transport how, element_kind kind, std::uint32_t distance,
                                span_on<E, std::byte> out, span_on<E, std::byte> gathered) {
  switch (how) {
    case transport::all_gather: return comm.all_gather(exec, span_on<E, std::byte const>(out), gathered);
    case transport::all_to_all:
      if constexpr (has_all_to_all<Comm, E>) return comm.all_to_all(exec, span_on<E, std::byte const>(out), gathered);
      break;
    case transport::swap:
      if constexpr (has_send_recv<Comm, E>) return swap(exec, comm, distance, out, gathered);
      break;
    case transport::shift:
      if constexpr (has_send_recv<Comm, E>) return shift(exec, comm, distance, out, gathered);
      break;
    case transport::sum: return reduce(exec, comm, kind, out, reduction::sum);
    case transport::max: return reduce(exec, comm, kind, out, reduction::max);
  }
  throw std::logic_error(sentence("all_reduce_mean: the communicator lacks a transport of this codec"));
}

/// The buffer that holds the result of a transfer. This buffer is `out` after a sum or maximum, and `gathered`
/// otherwise.
template <class E>
received_on<E> moved(transport how, span_on<E, std::byte> out, span_on<E, std::byte> gathered, unsigned ranks) {
  return comes_apart(how) ? received_on<E>{gathered, out.size() / pieces(how, ranks)} : received_on<E>{out};
}

/// Runs a round of one tensor: produces, transfers, waits and absorbs.
template <class In, class E, class Comm, class C>
void run_round(E const& exec, sub_communicators<Comm>& comms, C const& codec, unsigned round, values_on<E, In> x,
               codec_state<In, C, E>& state, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const cx = state.context_on(exec, ws, comms.size());
  auto const moves = transfer_of<In>(codec, round, cx.dims, cx.ranks);
  auto const ranks = moves.among.ranks(comms.size()), pieces = detail::pieces(moves.how, ranks);
  auto const piece = padded_bytes(moves);
  auto const take = [&](std::size_t n) { return span_on<E, std::byte>(ws.template take<std::byte>(n).data, n); };
  auto const sent = take(piece * pieces), gathered = take(piece * arrivals(moves.how, ranks));
  auto const out = sent.first(moves.bytes() * pieces);
  clear_padding<E>(exec, sent, out.size());
  produce<In>(codec, cx, round, values_on<E, In const>(x), out, state.replicated(), state.local());
  move_bytes(exec, comms.of(moves.among), moves.how, moves.kind, moves.distance, sent, gathered).wait(exec);
  absorb<In>(codec, cx, round, moved<E>(moves.how, sent, gathered, ranks), x, state.replicated(), state.local());
}

}  // namespace detail

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
///               communicator, gradient and state hold unspecified values
template <class In, executor E, class Comm, class C>
void all_reduce_mean(E const& exec, sub_communicators<Comm>& comms, C const& codec,
                     span_on<E, std::type_identity_t<In>> gradient, codec_state<In, C, E>& state, workspace_on<E>& ws) {
  explain_communicator<Comm, E>();
  auto const environment = detail::default_float_environment();
  auto const& dims = state.dims();
  auto const x = values_on<E, In>{gradient.data(), dims.n};
  auto const ranks = comms.size();
  detail::require_size("all_reduce_mean", "gradient", dims.n, gradient.size());
  detail::require(state.id().rank == comms.rank(), "all_reduce_mean: the state's rank must be ", comms.rank(), ", got ",
                  state.id().rank, ": pass the communicator's rank to make_state");
  detail::require_served<In, Comm, E>("all_reduce_mean", codec, dims, ranks);
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

/// The overload for wrong arguments. A call of this overload fails to compile, by design, with an error that names the
/// reason.
template <executor E, class Comm, class C, class X, class S>
  requires(!detail::writable_by<X, S, C, E>)
void all_reduce_mean(E const&, Comm&, C const&, X&&, S&, workspace_on<E>&) { detail::explain_arguments<X, S, C, E>(); }

}  // namespace pith::inline v0
