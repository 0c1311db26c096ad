// tests/support/failing.hpp — a communicator that throws in one of its calls.
#pragma once

#include <pith/comm/communicator.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

namespace support {

/// When it throws: before the other ranks see the call, or after they have all data to complete it.
enum class fault { before, after };

struct lost_call : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Forwards to another communicator until the call that must fails; also for sub-communicators.
template <class Comm>
class failing_communicator {
 public:
  explicit failing_communicator(Comm comm) : comm_(std::move(comm)) {}

  /// After this many more calls one fails; 0: the next one.
  void fail(int calls, fault when) { *left_ = calls, *when_ = when; }
  /// The number of calls before it fails. Any thread may call this.
  int left() const { return *left_; }

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }
  failing_communicator split(unsigned color) {
    return around([&] { return failing_communicator(comm_.split(color), *this); });
  }

  template <pith::executor E>
  auto all_gather(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return around([&] { return comm_.all_gather(exec, mine, all); });
  }
  template <pith::executor E>
  auto all_to_all(E const& exec, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> all) {
    return around([&] { return comm_.all_to_all(exec, mine, all); });
  }
  template <pith::executor E>
  auto send_recv(E const& exec, pith::span_on<E, std::byte const> mine, unsigned to, pith::span_on<E, std::byte> theirs,
                 unsigned from) {
    return around([&] { return comm_.send_recv(exec, mine, to, theirs, from); });
  }
  template <pith::executor E, class T>
  auto all_reduce(E const& exec, pith::span<T, pith::space_of<E>> x, pith::reduction how) {
    return around([&] { return comm_.all_reduce(exec, x, how); });
  }
  template <pith::executor E>
  auto broadcast(E const& exec, pith::span_on<E, std::byte> x, unsigned root) {
    return around([&] { return comm_.broadcast(exec, x, root); });
  }

 private:
  failing_communicator(Comm comm, failing_communicator const& whole)
      : comm_(std::move(comm)), left_(whole.left_), when_(whole.when_) {}

  template <class F>
  auto around(F const& call) {
    auto const fails = (*left_)-- == 0;
    if (fails && *when_ == fault::before) throw lost_call("a call that no other rank sees");
    auto request = call();
    if (fails) throw lost_call("a call that the other ranks end");
    return request;
  }

  Comm comm_;
  std::shared_ptr<std::atomic<int>> left_ = std::make_shared<std::atomic<int>>(std::numeric_limits<int>::max());
  std::shared_ptr<fault> when_ = std::make_shared<fault>(fault::before);
};

}  // namespace support
