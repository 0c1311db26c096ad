// pith/exchange/detail/move_bytes.hpp — starts the transfer of a round, and checks that the communicator supports it.
#pragma once

#include <pith/codec/rounds.hpp>
#include <pith/comm/communicator.hpp>
#include <pith/comm/sub_communicators.hpp>
#include <pith/exchange/detail/any_request.hpp>

#include <cstdint>
#include <stdexcept>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Starts an in-place all-reduce of bytes, which are elements of the given kind. Elements of 16 bits are averaged by
/// transport::all_reduce_mean, so the communicator need not have all-reduces of such elements.
template <class Comm, class E>
any_request<Comm, E> reduce(E const& exec, Comm& comm, element_kind kind, span_on<E, std::byte> bytes, reduction how) {
  return with_elements<space_of<E>>(
      kind, bytes.data(), bytes.size() / kind_bytes(kind),
      [&]<class T>(span<T, space_of<E>> elements) -> any_request<Comm, E> {
        if constexpr (!is_narrow(kind_of<T>())) return comm.all_reduce(exec, elements, how);
        throw std::logic_error(sentence("transfer: an all-reduce of 16-bit elements must be a mean"));
      });
}

/// The name of a function that a transfer needs and the communicator lacks; null if the communicator has all functions.
inline char const* lacking_call(optional_calls const& has, transfer const& moves) {
  auto const how = moves.how;
  if ((how == transport::all_to_all || how == transport::all_reduce_mean) && !has.all_to_all)
    return "all_to_all(exec, span<std::byte const>, span<std::byte>)";
  if ((how == transport::pairwise || how == transport::ring_shift) && !has.send_recv)
    return "send_recv(exec, span<std::byte const>, unsigned, span<std::byte>, unsigned)";
  if (!moves.among.is_all() && !has.split) return "split(unsigned) that returns its own type";
  return nullptr;
}

/// Throws std::invalid_argument if a round of the codec needs a collective that this communicator lacks.
template <class In, class E, class Comm, class C>
void require_served(char const* verb, Comm const& comm, C const& codec, shape const& dims) {
  auto const ranks = comm.size();
  for (unsigned round = 0; round < codec.rounds(dims, ranks); ++round) {
    auto const* const call = lacking_call(optional_calls_of<E>(comm), transfer_of<In>(codec, round, dims, ranks));
    if (call == nullptr) continue;
    throw std::invalid_argument(sentence(verb, ": ", codec.name(), " needs a communicator with ", call));
  }
}

/// Swaps buffers with the rank `rank ^ distance`. A rank whose partner does not exist sends and receives nothing.
template <class Comm, class E>
any_request<Comm, E> pairwise(E const& exec, Comm& comm, std::uint32_t distance, span_on<E, std::byte> out,
                              span_on<E, std::byte> in) {
  auto const rank = comm.rank(), partner = rank ^ distance;
  if (partner >= comm.size()) return comm.send_recv(exec, span_on<E, std::byte const>(), rank, in.first(0), rank);
  return comm.send_recv(exec, span_on<E, std::byte const>(out), partner, in, partner);
}

/// Sends `out` to the rank (rank + distance) modulo the number of ranks.
template <class Comm, class E>
any_request<Comm, E> ring_shift(E const& exec, Comm& comm, std::uint32_t distance, span_on<E, std::byte> out,
                                span_on<E, std::byte> in) {
  auto const rank = comm.rank(), ranks = comm.size(), by = distance % ranks;
  return comm.send_recv(exec, span_on<E, std::byte const>(out), (rank + by) % ranks, in, (rank + ranks - by) % ranks);
}

/// Starts the transfer of a round. The transfer uses `out` and `gathered` until the request completes.
template <class Comm, class E>
any_request<Comm, E> move_bytes(E const& exec, Comm& comm, transport how, element_kind kind, std::uint32_t distance,
                                span_on<E, std::byte> out, span_on<E, std::byte> gathered) {
  switch (how) {
    case transport::all_gather: return comm.all_gather(exec, span_on<E, std::byte const>(out), gathered);
    case transport::all_to_all:
      if constexpr (calls_of<Comm, E>.all_to_all)
        return comm.all_to_all(exec, span_on<E, std::byte const>(out), gathered);
      break;
    case transport::pairwise:
      if constexpr (calls_of<Comm, E>.send_recv) return pairwise(exec, comm, distance, out, gathered);
      break;
    case transport::ring_shift:
      if constexpr (calls_of<Comm, E>.send_recv) return ring_shift(exec, comm, distance, out, gathered);
      break;
    case transport::all_reduce_sum: return reduce(exec, comm, kind, out, reduction::sum);
    case transport::all_reduce_max: return reduce(exec, comm, kind, out, reduction::max);
    case transport::all_reduce_mean: break;
  }
  throw std::logic_error(sentence("transfer: the communicator lacks a transport of this codec"));
}

/// The buffer that has the result of a transfer: `out` after a sum or maximum, and `gathered` otherwise.
template <class E>
received_on<E> moved(transport how, span_on<E, std::byte> out, span_on<E, std::byte> gathered, unsigned ranks) {
  return is_separate(how) ? received_on<E>{gathered, out.size() / pieces(how, ranks)} : received_on<E>{out};
}

}}}  // namespace pith::PITH_ABI::detail
