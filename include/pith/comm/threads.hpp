// pith/comm/threads.hpp — ranks that are threads of one process.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/call.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace pith::inline v0 {

namespace detail {

/// A barrier that a rank may leave, whatever its reason: whoever waits for it then hears of it and does not hang.
class leavable_barrier {
 public:
  explicit leavable_barrier(unsigned ranks) : ranks_(ranks) {}

  void arrive_and_wait() {
    auto lock = std::unique_lock(mutex_);
    auto const phase = phase_;
    if (left_) fail();
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++phase_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return phase_ != phase || left_; });
    if (phase_ == phase) fail();
  }

  void leave() {
    auto const lock = std::lock_guard(mutex_);
    left_ = true;
    changed_.notify_all();
  }

 private:
  [[noreturn]] static void fail() { throw communication_error("pith::threads: another rank left the group"); }

  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned ranks_;
  unsigned arrived_ = 0;
  std::uint64_t phase_ = 0;
  bool left_ = false;
};

/// What ranks show one another.
struct thread_group {
  explicit thread_group(unsigned ranks) : barrier(ranks), shown(ranks) {}

  leavable_barrier barrier;
  std::vector<void*> shown;
};

}  // namespace detail

/// One rank's end of a group of threads. Every call waits for all ranks; sums run in rank order, narrow types in float,
/// so that all ranks have the same bits.
class thread_communicator {
 public:
  thread_communicator(detail::thread_group& group, unsigned rank) : group_(&group), rank_(rank) {}

  unsigned rank() const { return rank_; }
  unsigned size() const { return static_cast<unsigned>(group_->shown.size()); }

  template <executor E>
  completed all_gather(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    detail::require(all.size() == mine.size() * size(), "threads: all_gather needs room for ", mine.size() * size(),
                    " bytes, got ", all.size());
    show(const_cast<std::byte*>(mine.data()));
    for (unsigned r = 0; r < size(); ++r) exec.copy(all.data() + r * mine.size(), shown<std::byte>(r), mine.size());
    group_->barrier.arrive_and_wait();
    return {};
  }

  template <executor E>
  completed all_to_all(E const& exec, span_on<E, std::byte const> mine, span_on<E, std::byte> all) {
    detail::require(all.size() == mine.size() && mine.size() % size() == 0, "threads: all_to_all needs room for ",
                    mine.size(), " bytes in ", size(), " equal pieces, got ", all.size());
    auto const piece = mine.size() / size();
    show(const_cast<std::byte*>(mine.data()));
    for (unsigned r = 0; r < size(); ++r) exec.copy(all.data() + r * piece, shown<std::byte>(r) + rank_ * piece, piece);
    group_->barrier.arrive_and_wait();
    return {};
  }

  /// Rank r reduces the r-th part of all ranks' elements in its own memory; then all copy all parts.
  template <host_executor E, class T>
  completed all_reduce(E const& exec, span<T, host_space> x, reduction how) {
    show(x.data());
    auto const part = [&](unsigned r) { return x.size() * r / size(); };
    for (auto i = part(rank_); i < part(rank_ + 1); ++i) x.data()[i] = reduced<T>(i, how);
    group_->barrier.arrive_and_wait();
    for (unsigned r = 0; r < size(); ++r) {
      if (r != rank_) exec.copy(x.data() + part(r), shown<T>(r) + part(r), (part(r + 1) - part(r)) * sizeof(T));
    }
    group_->barrier.arrive_and_wait();
    return {};
  }

  template <executor E>
  completed broadcast(E const& exec, span_on<E, std::byte> x, unsigned root) {
    show(x.data());
    if (rank_ != root) exec.copy(x.data(), shown<std::byte>(root), x.size());
    group_->barrier.arrive_and_wait();
    return {};
  }

 private:
  void show(void* data) {
    group_->shown[rank_] = data;
    group_->barrier.arrive_and_wait();
  }
  template <class T>
  T* shown(unsigned r) const {
    return static_cast<T*>(group_->shown[r]);
  }

  template <class T>
  T reduced(std::size_t i, reduction how) const {
    using A = std::conditional_t<std::integral<T>, T, accum<T>>;
    A total = element_cast<A>(shown<T>(0)[i]);
    for (unsigned r = 1; r < size(); ++r) {
      A const next = element_cast<A>(shown<T>(r)[i]);
      total = how == reduction::sum ? static_cast<A>(total + next) : std::max(total, next);
    }
    return element_cast<T>(total);
  }

  detail::thread_group* group_;
  unsigned rank_;
};

static_assert(exchanges<thread_communicator, detail::archetype> &&
              exchanges_pieces<thread_communicator, detail::archetype>);

namespace detail {

/// How ranks end: by themselves, or because another one did.
class rank_errors {
 public:
  explicit rank_errors(unsigned ranks) : own_(ranks), followed_(ranks) {}

  template <class F>
  void catch_from(unsigned rank, F const& f) {
    try {
      f();
    } catch (communication_error const&) {
      followed_[rank] = std::current_exception();
    } catch (...) {
      own_[rank] = std::current_exception();
    }
  }

  void rethrow_first() const {
    for (auto const* errors : {&own_, &followed_}) {
      for (auto const& error : *errors) {
        if (error) std::rethrow_exception(error);
      }
    }
  }

 private:
  std::vector<std::exception_ptr> own_, followed_;
};

/// Starts run(rank) on `ranks` threads and joins them; if one cannot be started, the others hear of it.
template <class F>
void join_threads(unsigned ranks, leavable_barrier& barrier, F const& run) {
  auto threads = std::vector<std::jthread>();
  try {
    for (unsigned r = 0; r < ranks; ++r) threads.emplace_back(run, r);
  } catch (...) {
    barrier.leave();
    throw;
  }
}

}  // namespace detail

/// Calls f(communicator) on `ranks` threads and waits for them. If some throw, the others' next call throws too, and
/// the error of the first rank that failed by itself is thrown here.
template <class F>
void run_ranks(unsigned ranks, F const& f) {
  detail::require(ranks >= 1 && ranks < shared_rank, "run_ranks: ranks must be in [1, 65534], got ", ranks);
  auto group = detail::thread_group(ranks);
  auto errors = detail::rank_errors(ranks);
  detail::join_threads(ranks, group.barrier, [&](unsigned rank) {
    errors.catch_from(rank, [&] { f(thread_communicator(group, rank)); });
    group.barrier.leave();
  });
  errors.rethrow_first();
}

}  // namespace pith::inline v0
