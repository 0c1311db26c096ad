// pith/comm/communicator.hpp — concepts of a group of ranks that moves bytes and adds numbers in an executor's order.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>

#include <concepts>
#include <cstdint>

namespace pith::inline v0 {

enum class reduction : std::uint8_t { sum, max };

/// The result of an asynchronous call. wait() follows the executor's order: a host wait on the CPU, stream order on
/// CUDA. test() returns whether wait() would return at once, and lets the transport make progress. The spans of a call
/// must outlive its request.
template <class R, class E>
concept request_of = requires(R& r, E const& exec) {
  r.wait(exec);
  { r.test(exec) } -> std::same_as<bool>;
};

/// The request of a call that is complete when it returns.
struct completed {
  template <class E>
  void wait(E const&) {}
  template <class E>
  bool test(E const&) {
    return true;
  }
};

/// A type with a rank and a size. One concept per collective follows; a communicator models those that it provides.
/// One thread at a time calls a communicator, and all ranks make its calls in the same order.
template <class Comm>
concept communicator = requires(Comm const& comm) {
  { comm.rank() } -> std::same_as<unsigned>;
  { comm.size() } -> std::same_as<unsigned>;
};

/// `all` = every rank's `mine`, in rank order; sizes are equal on all ranks.
template <class Comm, class E>
concept has_all_gather = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
  { comm.all_gather(exec, mine, all) } -> request_of<E>;
};

/// Rank r's `all` = the r-th of `size()` equal pieces of every rank's `mine`, in rank order.
template <class Comm, class E>
concept has_all_to_all = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
  { comm.all_to_all(exec, mine, all) } -> request_of<E>;
};

/// Sends `mine` to rank `to` and receives `theirs` from rank `from`; both may be the rank itself, or neither. All ranks
/// call it: a rank without a partner passes itself, with spans that may be empty. Rings and pairwise swaps use it.
template <class Comm, class E>
concept has_send_recv = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> theirs) {
  { comm.send_recv(exec, mine, 0u, theirs, 0u) } -> request_of<E>;
};

/// x = the elementwise sum or maximum over the ranks, in place, of float, double, half, bfloat16, int32 or int8.
template <class Comm, class E, class T = float>
concept has_all_reduce = communicator<Comm> && requires(Comm& comm, E const& exec, span_on<E, T> x) {
  { comm.all_reduce(exec, x, reduction::sum) } -> request_of<E>;
};

/// Rank r's `part` = the elementwise sum or maximum of the r-th of `size()` equal pieces of every rank's `mine`. The
/// spans must not overlap.
template <class Comm, class E, class T = float>
concept has_reduce_scatter = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, T const> mine, span_on<E, T> part) {
  { comm.reduce_scatter(exec, mine, part, reduction::sum) } -> request_of<E>;
};

/// x = the x of rank `root`, on all ranks.
template <class Comm, class E>
concept has_broadcast = communicator<Comm> && requires(Comm& comm, E const& exec, span_on<E, std::byte> x) {
  { comm.broadcast(exec, x, 0u) } -> request_of<E>;
};

/// A communicator of the ranks that pass the same colour, in rank order. All ranks call it.
template <class Comm>
concept has_split = communicator<Comm> && requires(Comm& comm) {
  { comm.split(0u) } -> communicator;
};

/// All collectives.
template <class Comm, class E>
concept has_all_collectives = has_all_gather<Comm, E> && has_all_to_all<Comm, E> && has_send_recv<Comm, E> &&
    has_all_reduce<Comm, E> && has_reduce_scatter<Comm, E> && has_broadcast<Comm, E> && has_split<Comm>;

/// The collectives of an exchange; two_shot needs has_all_to_all too.
template <class Comm, class E>
concept exchange_communicator = has_all_gather<Comm, E> && has_all_reduce<Comm, E, float> &&
    has_all_reduce<Comm, E, double> && has_all_reduce<Comm, E, half> && has_all_reduce<Comm, E, bfloat16> &&
    has_all_reduce<Comm, E, std::int32_t> && has_all_reduce<Comm, E, std::int8_t>;

/// Fails to compile with the first collective that `Comm` lacks to exchange gradients.
template <class Comm, class E>
constexpr void explain_communicator() {
  static_assert(communicator<Comm>, "pith: a communicator must have unsigned rank() const and unsigned size() const");
  static_assert(has_all_gather<Comm, E>,
                "pith: this communicator lacks all_gather(exec, span<std::byte const>, span<std::byte>), which an "
                "exchange needs");
  static_assert(exchange_communicator<Comm, E> || !has_all_gather<Comm, E>,
                "pith: this communicator lacks all_reduce(exec, span<T>, reduction) of float, double, half, bfloat16, "
                "int32 or int8, which "
                "an exchange needs");
}

}  // namespace pith::inline v0
