// tests/support/late.hpp — a communicator that delays each transfer until wait() or a later test().
#pragma once

#include <pith/comm/communicator.hpp>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

namespace support {

/// Makes the delayed call in wait(), or in the `patience`-th test().
class late_request {
 public:
  late_request(int patience, std::function<void()> call) : patience_(patience), call_(std::move(call)) {}
  late_request(late_request&& other) noexcept
      : patience_(other.patience_), call_(std::exchange(other.call_, nullptr)) {}
  late_request& operator=(late_request&&) = delete;

  template <class E>
  void wait(E const&) {
    if (call_) std::exchange(call_, nullptr)();
  }
  template <class E>
  bool test(E const& exec) {
    if (--patience_ <= 0) wait(exec);
    return !call_;
  }

 private:
  int patience_;
  std::function<void()> call_;
};

/// The calls of another communicator, delayed. Until then the destination is filled with ones, and the call will read
/// a copy of the source: a premature access to either changes the result.
template <class Comm>
class late_communicator {
 public:
  late_communicator(Comm comm, int patience) : comm_(comm), patience_(patience) {}

  unsigned rank() const { return comm_.rank(); }
  unsigned size() const { return comm_.size(); }
  late_communicator split(unsigned color) { return {comm_.split(color), patience_}; }
  /// The number of calls so far. Any thread may call this.
  int begun() const { return begun_; }

  template <pith::detail::host_executor E>
  late_request all_gather(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    std::memset(all.data(), 0xff, all.size());
    return later([this, &exec, all](pith::span<std::byte const> sent) { comm_.all_gather(exec, sent, all).wait(exec); },
                 mine);
  }
  template <pith::detail::host_executor E>
  late_request all_to_all(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    std::memset(all.data(), 0xff, all.size());
    return later([this, &exec, all](pith::span<std::byte const> sent) { comm_.all_to_all(exec, sent, all).wait(exec); },
                 mine);
  }
  template <pith::detail::host_executor E>
  late_request send_recv(E const& exec, pith::span<std::byte const> mine, unsigned to, pith::span<std::byte> theirs,
                         unsigned from) {
    std::memset(theirs.data(), 0xff, theirs.size());
    return later([this, &exec, to, theirs,
                  from](pith::span<std::byte const> sent) { comm_.send_recv(exec, sent, to, theirs, from).wait(exec); },
                 mine);
  }
  template <pith::detail::host_executor E, class T>
  late_request all_reduce(E const& exec, pith::span<T> x, pith::reduction how) {
    auto const bytes = pith::span<std::byte const>(reinterpret_cast<std::byte const*>(x.data()), x.size() * sizeof(T));
    auto request = later(
        [this, &exec, x, how](pith::span<std::byte const> sent) {
          std::memcpy(static_cast<void*>(x.data()), sent.data(), sent.size());
          comm_.all_reduce(exec, x, how).wait(exec);
        },
        bytes);
    std::memset(static_cast<void*>(x.data()), 0xff, bytes.size());
    return request;
  }

 private:
  template <class F>
  late_request later(F const& call, pith::span<std::byte const> sent) {
    ++begun_;
    auto copy = std::vector<std::byte>(sent.size() + 1);  // one more, so that an empty message has an address
    if (!sent.empty()) std::memcpy(copy.data(), sent.data(), sent.size());
    return {patience_,
            [call, copy = std::move(copy)] { call(pith::span<std::byte const>(copy.data(), copy.size() - 1)); }};
  }

  Comm comm_;
  int patience_;
  std::atomic<int> begun_ = 0;
};

}  // namespace support
