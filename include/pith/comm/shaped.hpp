// pith/comm/shaped.hpp — a communicator whose calls take as long as over links of a given rate and delay.
#pragma once

#include <pith/comm/detail/adaptor.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// The link of one rank, which sends and receives at the same time. `delay` is the time from one rank to another.
struct link_shape {
  double bits_per_second = HUGE_VAL;
  std::chrono::duration<double> delay{0};
};

namespace detail {

/// A rank's link. Messages of successive calls follow each other.
class shaped_link {
 public:
  using clock = std::chrono::steady_clock;

  explicit shaped_link(link_shape const& shape) : shape_(shape) {
    require(shape.bits_per_second > 0, "shaped: bits_per_second must be above 0, got ", shape.bits_per_second);
    require(0 <= shape.delay.count() && shape.delay.count() < HUGE_VAL,
            "shaped: delay must be finite and at least 0 s, got ", shape.delay.count(), " s");
  }

  /// Returns the time at which the last of the bytes arrives, after `hops` delays.
  clock::time_point send(double bytes, unsigned hops) {
    free_ = std::max(free_, clock::now()) + seconds(8 * bytes / shape_.bits_per_second);
    return free_ + seconds(hops * shape_.delay.count());
  }

 private:
  static clock::duration seconds(double s) {
    return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(s));
  }

  link_shape shape_;
  clock::time_point free_{};
};

/// A request that does not complete before a given time.
template <class R>
class shaped_request {
 public:
  shaped_request(R request, shaped_link::clock::time_point due) : request_(std::move(request)), due_(due) {}

  template <class E>
  void wait(E const& exec) {
    request_.wait(exec);
    std::this_thread::sleep_until(due_);
  }
  template <class E>
  bool test(E const& exec) {
    return request_.test(exec) && shaped_link::clock::now() >= due_;
  }

 private:
  R request_;
  shaped_link::clock::time_point due_;
};

}  // namespace detail

/// Adapts a `Comm` so that each call takes as long as over links of a given rate and delay. So ranks inside one process
/// show how long an exchange takes on a network. The constructor takes the link, then the parameters of `Comm`'s
/// constructor.
///
///   auto comm = pith::shaped<pith::thread_communicator>({.bits_per_second = 1e8}, ranks);
///
/// A call of N ranks that pass b bytes takes s / rate + h delay after the links of earlier calls are free, where
///
///   call                       s                     h
///   all_gather                 (N - 1) b             1
///   all_to_all, reduce_scatter (N - 1) b / N         1
///   all_reduce                 2 (N - 1) b / N       2
///   send_recv, broadcast       b                     1
///
/// A call takes no additional time if s is 0. In send_recv, b is the larger of the two sizes.
///
///   requires    host memory; a `Comm` that is faster than the link
///   complexity  the time of `Comm`, and the time above; the waiting thread sleeps. Only split() allocates
///   errors      std::invalid_argument if the rate is not above 0 or the delay is below 0; the errors of Comm
///   owns        the Comm. The communicators that split() returns share the link of their rank
template <class Comm>
class shaped : public detail::communicator_adaptor<Comm> {
  using base = detail::communicator_adaptor<Comm>;

 public:
  using base::rank;
  using base::size;

  template <class... Arguments>
  explicit shaped(link_shape const& link, Arguments&&... arguments)
      : base(std::forward<Arguments>(arguments)...), link_(std::make_shared<detail::shaped_link>(link)) {}

  template <detail::host_executor E>
  auto all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    return delayed(comm_.all_gather(exec, mine, all), others() * bytes(mine), 1);
  }
  template <detail::host_executor E, class T>
  auto all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    return delayed(comm_.all_reduce(exec, x, how), 2 * others() * bytes(x) / size(), 2);
  }
  template <detail::host_executor E>
  auto all_to_all(E const& exec, span_on<E, std::byte const> mine,
                  span_on<E, std::byte> all) requires(calls_of<Comm, E>.all_to_all) {
    return delayed(comm_.all_to_all(exec, mine, all), others() * bytes(mine) / size(), 1);
  }
  template <detail::host_executor E>
  auto send_recv(E const& exec, span_on<E, std::byte const> mine, unsigned to, span_on<E, std::byte> theirs,
                 unsigned from) requires(calls_of<Comm, E>.send_recv) {
    auto const is_alone = to == rank() && from == rank();
    auto const most = std::max(bytes(mine), bytes(theirs));
    return delayed(comm_.send_recv(exec, mine, to, theirs, from), is_alone ? 0 : most, 1);
  }
  template <detail::host_executor E, class T>
  auto reduce_scatter(E const& exec, span<std::type_identity_t<T> const, host_space> mine, span<T, host_space> part,
                      reduction how) requires(calls_of<Comm, E>.reduce_scatter) {
    return delayed(comm_.reduce_scatter(exec, mine, part, how), others() * bytes(mine) / size(), 1);
  }
  template <detail::host_executor E>
  auto broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) requires(calls_of<Comm, E>.broadcast) {
    return delayed(comm_.broadcast(exec, x, root), others() > 0 ? bytes(x) : 0, 1);
  }
  shaped split(unsigned color) requires detail::has_split<Comm> { return shaped(part_of{}, *this, color); }

 private:
  using base::comm_;
  using typename base::part_of;

  shaped(part_of part, shaped& whole, unsigned color) : base(part, whole.comm_, color), link_(whole.link_) {}

  template <class Span>
  static double bytes(Span const& x) {
    return static_cast<double>(x.size_bytes());
  }
  double others() const { return static_cast<double>(size() - 1); }

  /// The call of `Comm` has begun. If it waits for all ranks, the link's time begins when all ranks have called.
  template <class R>
  detail::shaped_request<R> delayed(R request, double sent, unsigned hops) {
    return {std::move(request), link_->send(sent, sent > 0 ? hops : 0)};
  }

  std::shared_ptr<detail::shaped_link> link_;
};

}}  // namespace pith::PITH_ABI
