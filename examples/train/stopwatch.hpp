// examples/train/stopwatch.hpp — splits the time of a step into phases, from the calls of its communicator.
#pragma once

#include <pith/comm/sub_communicators.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace train {

/// Seconds of one step: the gradient, the time before the transfers, the transfers, and the time after them.
struct phases {
  double compute = 0, encode = 0, exchange = 0, decode = 0;

  phases& operator+=(phases const& other) {
    compute += other.compute;
    encode += other.encode;
    exchange += other.exchange;
    decode += other.decode;
    return *this;
  }

  phases operator/(double n) const { return {compute / n, encode / n, exchange / n, decode / n}; }
};

class stopwatch {
 public:
  /// Seconds since the last call or, for the first one, the start.
  double lap() {
    auto const before = std::exchange(last_, std::chrono::steady_clock::now());
    return std::chrono::duration<double>(last_ - before).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// A communicator that times its calls and the time between them. Its sub-communicators share its clock.
template <class Comm>
class stopwatch_communicator {
 public:
  explicit stopwatch_communicator(Comm comm) : stopwatch_communicator(std::move(comm), std::make_shared<clock>()) {}

  stopwatch_communicator split(unsigned color) requires(pith::calls_of<Comm, pith::archetype>.split) {
    return stopwatch_communicator(comm_.split(color), clock_);
  }

  Comm& watched() { return comm_; }

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }

  template <pith::executor E>
  pith::completed all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return timed([&] { comm_.all_gather(exec, mine, all).wait(exec); });
  }

  template <pith::executor E>
  pith::completed all_to_all(E const& exec, pith::span_on<E, std::byte const> mine,
                             pith::span_on<E, std::byte> all) requires(pith::calls_of<Comm, E>.all_to_all) {
    return timed([&] { comm_.all_to_all(exec, mine, all).wait(exec); });
  }

  template <pith::executor E>
  pith::completed send_recv(E const& exec, pith::span_on<E, std::byte const> mine, unsigned to,
                            pith::span_on<E, std::byte> theirs,
                            unsigned from) requires(pith::calls_of<Comm, E>.send_recv) {
    return timed([&] { comm_.send_recv(exec, mine, to, theirs, from).wait(exec); });
  }

  template <pith::executor E>
  pith::completed broadcast(E const& exec, pith::span_on<E, std::byte> x,
                            unsigned from) requires(pith::calls_of<Comm, E>.broadcast) {
    return timed([&] { comm_.broadcast(exec, x, from).wait(exec); });
  }

  template <pith::executor E, class T>
  pith::completed all_reduce(E const& exec, pith::span<T, pith::space_of<E>> x, pith::reduction how) {
    return timed([&] { comm_.all_reduce(exec, x, how).wait(exec); });
  }

  /// The phases, except compute, of the exchange that `f` runs over this communicator.
  template <class F>
  phases of(F const& f) {
    clock_->spent = {};
    clock_->watch.lap();
    f();
    clock_->spent.decode += clock_->watch.lap();
    return clock_->spent;
  }

 private:
  struct clock {
    stopwatch watch;
    phases spent;
  };

  stopwatch_communicator(Comm comm, std::shared_ptr<clock> shared)
      : comm_(std::move(comm)), clock_(std::move(shared)) {}

  /// All time before the last transfer counts as encoding: a collective codec, such as power_sgd, computes between
  /// transfers.
  template <class F>
  pith::completed timed(F const& transfer) {
    clock_->spent.encode += clock_->watch.lap();
    transfer();
    clock_->spent.exchange += clock_->watch.lap();
    return {};
  }

  Comm comm_;
  std::shared_ptr<clock> clock_;
};

}  // namespace train
