// pith/comm/communicator.hpp — a group of ranks that can move bytes and add numbers, in an executor's order.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>

#include <concepts>
#include <cstdint>

namespace pith::inline v0 {

enum class reduction : std::uint8_t { sum, max };

/// What an asynchronous call returns. Waiting is in the executor's order: a host wait on the CPU, stream order on CUDA.
/// Testing says whether waiting would return at once, and lets the transport make progress.
template <class R, class E>
concept request_of = requires(R& r, E const& exec) {
  r.wait(exec);
  { r.test(exec) } -> std::same_as<bool>;
};

/// A call that is done when it returns.
struct completed {
  template <class E>
  void wait(E const&) {}
  template <class E>
  bool test(E const&) {
    return true;
  }
};

/// It knows its place. One concept per collective follows; a communicator has those that it serves.
template <class Comm>
concept communicator = requires(Comm const& comm) {
  { comm.rank() } -> std::same_as<unsigned>;
  { comm.size() } -> std::same_as<unsigned>;
};

/// Every rank's `mine` lies in every rank's `all`, in rank order; sizes are equal on all ranks.
template <class Comm, class E>
concept has_all_gather = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
  { comm.all_gather(exec, mine, all) } -> request_of<E>;
};

/// Rank r's `all` holds the r-th of `size()` equal pieces of every rank's `mine`, in rank order.
template <class Comm, class E>
concept has_all_to_all = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
  { comm.all_to_all(exec, mine, all) } -> request_of<E>;
};

/// `mine` goes to rank `to` while `theirs` comes from rank `from`; both may be the rank itself, or neither. A call of
/// all ranks: one without a partner is its own, and its spans may be empty. Rings and pairs are made of it.
template <class Comm, class E>
concept has_send_recv = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> theirs) {
  { comm.send_recv(exec, mine, 0u, theirs, 0u) } -> request_of<E>;
};

/// In place: every rank has the elementwise sum or maximum, of float, double, half, bfloat16, int32 or int8.
template <class Comm, class E, class T = float>
concept has_all_reduce = communicator<Comm> && requires(Comm& comm, E const& exec, span_on<E, T> x) {
  { comm.all_reduce(exec, x, reduction::sum) } -> request_of<E>;
};

/// Rank r's `part` is the elementwise sum or maximum of the r-th of `size()` equal pieces of every rank's `mine`, which
/// it does not overlap.
template <class Comm, class E, class T = float>
concept has_reduce_scatter = communicator<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, T const> mine, span_on<E, T> part) {
  { comm.reduce_scatter(exec, mine, part, reduction::sum) } -> request_of<E>;
};

/// Every rank has what `root` has.
template <class Comm, class E>
concept has_broadcast = communicator<Comm> && requires(Comm& comm, E const& exec, span_on<E, std::byte> x) {
  { comm.broadcast(exec, x, 0u) } -> request_of<E>;
};

/// A communicator of the ranks that say the same colour, in the order of their ranks. A call of all ranks.
template <class Comm>
concept has_split = communicator<Comm> && requires(Comm& comm) {
  { comm.split(0u) } -> communicator;
};

/// All collectives.
template <class Comm, class E>
concept has_all_collectives = has_all_gather<Comm, E> && has_all_to_all<Comm, E> && has_send_recv<Comm, E> &&
    has_all_reduce<Comm, E> && has_reduce_scatter<Comm, E> && has_broadcast<Comm, E> && has_split<Comm>;

/// What an exchange needs; two_shot needs has_all_to_all too.
template <class Comm, class E>
concept exchange_communicator = has_all_gather<Comm, E> && has_all_reduce<Comm, E, float> &&
    has_all_reduce<Comm, E, double> && has_all_reduce<Comm, E, half> && has_all_reduce<Comm, E, bfloat16> &&
    has_all_reduce<Comm, E, std::int32_t> && has_all_reduce<Comm, E, std::int8_t>;

/// Fails to compile with the first thing that `Comm` lacks to exchange gradients.
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
