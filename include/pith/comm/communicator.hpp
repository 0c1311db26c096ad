// pith/comm/communicator.hpp — concepts of communicators, which send bytes and sum values in an executor's memory.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>

#include <concepts>
#include <cstdint>

namespace pith::inline v0 {

enum class reduction : std::uint8_t { sum, max };

/// Returns the sum or the maximum of two elements. Elements of half and bfloat16 are added as floats, and each sum is
/// rounded. If a or b is NaN, the sum is NaN, and the maximum is b.
template <class T>
T reduced(T a, T b, reduction how) {
  if constexpr (real<T>) {
    auto const x = element_cast<accum<T>>(a), y = element_cast<accum<T>>(b);
    return element_cast<T>(how == reduction::sum ? x + y : x > y ? x : y);
  } else {
    return static_cast<T>(how == reduction::sum ? a + b : a > b ? a : b);
  }
}

/// The request of a call that completes before it returns.
struct completed {
  template <class E>
  void wait(E const&) {}
  template <class E>
  bool test(E const&) {
    return true;
  }
};

namespace detail {

/// The result of an asynchronous call. On the CPU, `wait()` blocks the host; on CUDA, `wait()` makes the stream wait.
/// `test()` returns whether `wait()` would return at once. `test()` also lets the transport make progress. The spans
/// that are passed to a call must outlive the request that the call returns.
template <class R, class E>
concept request_of = requires(R& r, E const& exec) {
  r.wait(exec);
  { r.test(exec) } -> std::same_as<bool>;
};

/// A type with a rank and a size.
template <class Comm>
concept has_ranks = requires(Comm const& comm) {
  { comm.rank() } -> std::same_as<unsigned>;
  { comm.size() } -> std::same_as<unsigned>;
};

}  // namespace detail

/// All-gather: `all` receives every rank's `mine`, in rank order. The sizes must be equal on all ranks.
template <class Comm, class E>
concept has_all_gather = detail::has_ranks<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
  { comm.all_gather(exec, mine, all) } -> detail::request_of<E>;
};

/// All-to-all: every rank divides its span `mine` into `size()` equal pieces and sends piece r to rank r. `all`
/// receives the pieces in the order of their senders.
template <class Comm, class E>
concept has_all_to_all = detail::has_ranks<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
  { comm.all_to_all(exec, mine, all) } -> detail::request_of<E>;
};

/// Sends `mine` to rank `to` and receives `theirs` from rank `from`. All ranks make the call. A rank without a partner
/// passes its own rank as `to` and as `from`, and may pass empty spans. A rank with a partner passes its own rank as
/// neither. Rings and pairwise swaps use this collective.
template <class Comm, class E>
concept has_send_recv = detail::has_ranks<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> theirs) {
  { comm.send_recv(exec, mine, 0u, theirs, 0u) } -> detail::request_of<E>;
};

/// All-reduce: replaces each element of x by its sum or maximum over the ranks. The element type is float, double,
/// half, bfloat16, int32 or int8.
template <class Comm, class E, class T = float>
concept has_all_reduce = detail::has_ranks<Comm> && requires(Comm& comm, E const& exec, span_on<E, T> x) {
  { comm.all_reduce(exec, x, reduction::sum) } -> detail::request_of<E>;
};

/// Reduce-scatter: computes the elementwise sum or maximum of the arrays `mine` of all ranks. The result is divided
/// into `size()` equal pieces, and `part` on rank r receives piece r. The spans `mine` and `part` must not overlap.
template <class Comm, class E, class T = float>
concept has_reduce_scatter = detail::has_ranks<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, T const> mine, span_on<E, T> part) {
  { comm.reduce_scatter(exec, mine, part, reduction::sum) } -> detail::request_of<E>;
};

/// Broadcast: x on every rank becomes a copy of x on rank `root`.
template <class Comm, class E>
concept has_broadcast = detail::has_ranks<Comm> && requires(Comm& comm, E const& exec, span_on<E, std::byte> x) {
  { comm.broadcast(exec, x, 0u) } -> detail::request_of<E>;
};

/// split(colour) returns a communicator of the ranks that passed the same colour, in rank order. All ranks must call
/// split.
template <class Comm>
concept has_split = detail::has_ranks<Comm> && requires(Comm& comm) {
  { comm.split(0u) } -> detail::has_ranks;
};

/// A communicator whose `split()` returns the communicator's own type.
template <class Comm>
concept has_same_type_split = has_split<Comm> && requires(Comm& comm) {
  { comm.split(0u) } -> std::same_as<Comm>;
};

/// A communicator that provides all collectives.
template <class Comm, class E>
concept has_all_collectives = has_all_gather<Comm, E> && has_all_to_all<Comm, E> && has_send_recv<Comm, E> &&
    has_all_reduce<Comm, E> && has_reduce_scatter<Comm, E> && has_broadcast<Comm, E> && has_split<Comm>;

namespace detail {

/// Whether a communicator has the calls that only some exchanges need.
struct optional_calls {
  bool all_to_all, send_recv, split;
};

/// The optional calls of a communicator. A type-erased communicator returns them at run time.
template <class E, class Comm>
optional_calls optional_calls_of(Comm const& comm) {
  if constexpr (requires { comm.optional_calls(); }) {
    return comm.optional_calls();
  } else {
    return {has_all_to_all<Comm, E>, has_send_recv<Comm, E>, has_same_type_split<Comm>};
  }
}

/// A communicator with the function require_thread_support(), which throws if only the main thread may call the
/// communicator.
template <class Comm>
concept has_thread_check = requires(Comm const& comm) {
  comm.require_thread_support();
};

}  // namespace detail

/// A type with a rank, a size and the collectives that every gradient_exchange needs. Some codecs need further
/// collectives: for example, `two_shot` needs `has_all_to_all`. Only one thread at a time may call a communicator. All
/// ranks must make the same calls in the same order.
template <class Comm, class E>
concept communicator = has_all_gather<Comm, E> && has_all_reduce<Comm, E, float> && has_all_reduce<Comm, E, double> &&
    has_all_reduce<Comm, E, half> && has_all_reduce<Comm, E, bfloat16> && has_all_reduce<Comm, E, std::int32_t> &&
    has_all_reduce<Comm, E, std::int8_t>;

/// Fails to compile if `Comm` lacks a collective that gradient_exchange needs. The error names the first missing
/// collective.
template <class Comm, class E>
constexpr void explain_communicator() {
  static_assert(detail::has_ranks<Comm>,
                "pith: a communicator must have unsigned rank() const and unsigned size() const");
  static_assert(has_all_gather<Comm, E>,
                "pith: this communicator lacks all_gather(exec, span<std::byte const>, span<std::byte>), which an "
                "exchange needs");
  static_assert(communicator<Comm, E> || !has_all_gather<Comm, E>,
                "pith: this communicator lacks all_reduce(exec, span<T>, reduction) of float, double, half, bfloat16, "
                "int32 or int8, which "
                "an exchange needs");
}

}  // namespace pith::inline v0
