// pith/comm/communicator.hpp — the concept of communicators, which send bytes and sum values in an executor's memory.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/facets.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The operation of an all-reduce or a reduce-scatter. If an element is NaN on some ranks, the sum is NaN, and a
/// transport may drop the NaN from the maximum.
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

template <class Comm, class E>
concept has_all_gather = has_ranks<Comm> &&
    requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
  { comm.all_gather(exec, mine, all) } -> request_of<E>;
};

template <class Comm, class E, class T>
concept has_all_reduce = has_ranks<Comm> && requires(Comm& comm, E const& exec, span_on<E, T> x) {
  { comm.all_reduce(exec, x, reduction::sum) } -> request_of<E>;
};

template <class Comm, class E>
concept has_all_to_all = requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine,
                                  span_on<E, std::byte> all) {
  { comm.all_to_all(exec, mine, all) } -> request_of<E>;
};

template <class Comm, class E>
concept has_send_recv = requires(Comm& comm, E const& exec, span_on<E, std::byte const> mine,
                                 span_on<E, std::byte> theirs) {
  { comm.send_recv(exec, mine, 0u, theirs, 0u) } -> request_of<E>;
};

template <class Comm, class E>
concept has_reduce_scatter = requires(Comm& comm, E const& exec, span_on<E, float const> mine, span_on<E, float> part) {
  { comm.reduce_scatter(exec, mine, part, reduction::sum) } -> request_of<E>;
};

template <class Comm, class E>
concept has_broadcast = requires(Comm& comm, E const& exec, span_on<E, std::byte> x) {
  { comm.broadcast(exec, x, 0u) } -> request_of<E>;
};

template <class Comm>
concept has_split = requires(Comm& comm) {
  { comm.split(0u) } -> std::same_as<Comm>;
};

}  // namespace detail

/// The calls that only some codecs and functions need. A member is true if the communicator has the call. All ranks must
/// make the same calls.
struct optional_calls {
  /// All-to-all: all_to_all(exec, mine, all). Every rank divides its span `mine` into `size()` equal pieces and sends
  /// piece r to rank r. `all` receives the pieces in the order of their senders.
  bool all_to_all = false;
  /// send_recv(exec, mine, to, theirs, from) sends `mine` to rank `to` and receives `theirs` from rank `from`. The size
  /// of `mine` must equal that of rank `to`'s `theirs`. A rank without a partner passes its own rank as `to` and as
  /// `from`, and may pass empty spans. A rank with a partner passes its own rank as neither. Rings and pairwise swaps
  /// use this call.
  bool send_recv = false;
  /// Reduce-scatter: reduce_scatter(exec, mine, part, how) computes the elementwise sum or maximum of the arrays `mine`
  /// of all ranks. The result is divided into `size()` equal pieces, and `part` on rank r receives piece r. The
  /// element types are those of all_reduce. pith itself does not use this call.
  bool reduce_scatter = false;
  /// Broadcast: broadcast(exec, x, root). x on every rank becomes a copy of x on rank `root`.
  bool broadcast = false;
  /// split(color) returns a communicator of the same type, of the ranks that passed the same color, in rank order.
  bool split = false;

  static constexpr optional_calls all() { return {true, true, true, true, true}; }
  friend bool operator==(optional_calls const&, optional_calls const&) = default;
};

/// The optional calls of the type `Comm` for the memory of executor `E`, for example `calls_of<Comm, E>.split`. The type
/// any_communicator has all calls; its function optional_calls() returns the calls of the wrapped communicator.
template <class Comm, class E>
inline constexpr optional_calls calls_of = {
    .all_to_all = detail::has_all_to_all<Comm, E>,
    .send_recv = detail::has_send_recv<Comm, E>,
    .reduce_scatter = detail::has_reduce_scatter<Comm, E>,
    .broadcast = detail::has_broadcast<Comm, E>,
    .split = detail::has_split<Comm>,
};

namespace detail {

/// A type-erased communicator, or an adapter of one, returns its optional calls at run time.
template <class Comm>
concept has_optional_calls = requires(Comm const& comm) {
  { comm.optional_calls() } -> std::same_as<optional_calls>;
};

template <class E, class Comm>
optional_calls optional_calls_of(Comm const& comm) {
  if constexpr (has_optional_calls<Comm>) {
    return comm.optional_calls();
  } else {
    return calls_of<Comm, E>;
  }
}

/// A communicator with the function require_thread_support(), which throws if only the main thread may call the
/// communicator.
template <class Comm>
concept has_thread_check = requires(Comm const& comm) {
  comm.require_thread_support();
};
struct communicator_members {
  int require_thread_support;
};

}  // namespace detail

/// A type with a rank, a size and the two collectives that every gradient_exchange needs. Some codecs also need
/// `optional_calls`: for example, `two_shot` needs `all_to_all`. Only one thread at a time may call a communicator. All
/// ranks must make the same calls in the same order. The spans of a call may be empty, and must not overlap.
///
///   all_gather(exec, mine, all)   `all` receives every rank's `mine`, in rank order. The sizes must be equal on all
///                                 ranks
///   all_reduce(exec, x, how)      replaces each element of x by its sum or maximum over the ranks. If the ranks receive
///                                 different bits, their models drift apart. The element type is float, double, int32
///                                 or int8. Communicators of pith also accept half and bfloat16, which no exchange
///                                 needs
template <class Comm, class E>
concept communicator = detail::has_all_gather<Comm, E> && detail::has_all_reduce<Comm, E, float> &&
    detail::has_all_reduce<Comm, E, double> && detail::has_all_reduce<Comm, E, std::int32_t> &&
    detail::has_all_reduce<Comm, E, std::int8_t>;

/// Fails to compile if `Comm` lacks a function that gradient_exchange needs. The error names this function.
template <class Comm, class E>
constexpr void explain_communicator() {
  static_assert(detail::has_ranks<Comm>,
                "pith: a communicator must have unsigned rank() const and unsigned size() const");
  static_assert(detail::has_all_gather<Comm, E>,
                "pith: this communicator lacks all_gather(exec, span<std::byte const>, span<std::byte>), which an "
                "exchange needs");
  static_assert(communicator<Comm, E> || !detail::has_all_gather<Comm, E>,
                "pith: this communicator lacks all_reduce(exec, span<T>, reduction) of float, double, int32 or int8, "
                "which an exchange needs");
  static_assert(
      detail::has_thread_check<Comm> ||
          requires { &detail::named<Comm, detail::communicator_members>::require_thread_support; },
      "pith: require_thread_support of a communicator must be a public member: void require_thread_support() const");
}

}}  // namespace pith::PITH_ABI
