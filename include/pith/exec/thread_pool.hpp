// pith/exec/thread_pool.hpp — a thread pool, in which workers and the caller claim chunks of work one by one.
#pragma once

#include <pith/core/error.hpp>
#include <pith/exec/parallel_runner.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Polls `word`, and yields the core between polls. Returns true as soon as `word` differs from `seen`, or false after
/// 100 polls. Polling pays, since the next job often follows within microseconds, before a sleeping thread would wake.
inline bool changes_soon(std::atomic<std::uint32_t> const& word, std::uint32_t seen) {
  for (int look = 0; look < 100; ++look) {
    if (word.load(std::memory_order_acquire) != seen) return true;
    std::this_thread::yield();
  }
  return false;
}

/// A sequence of jobs. Threads claim a job's indices one by one. The job is done when all its indices are done.
///
/// The ticket is one word: the job's number and the number of unclaimed indices. A thread reads the ticket and the
/// job's fields (`call_`, `f_` and `end_`), and then claims an index by a compare-and-exchange of the ticket. If the
/// job has ended in the meantime, the ticket differs and the claim fails, since job numbers repeat only after 2^44
/// jobs. A thread uses the fields only after a successful claim. So the next job may overwrite the fields while a late
/// thread reads them.
class claimed_job {
 public:
  using call_type = void (*)(void const* f, std::uint64_t i);

  static constexpr std::uint64_t most = (std::uint64_t{1} << 20) - 1;

  /// An index that a thread can claim, with the ticket and the fields that the thread has read.
  struct offer {
    std::uint64_t ticket;
    call_type call;
    void const* f;
    std::uint64_t i;
  };

  /// Opens a job with the indices `first` .. `first + count - 1`, where `count` <= `most`. The previous job must be
  /// done.
  void open(call_type call, void const* f, std::uint64_t first, std::uint64_t count) {
    call_.store(call, std::memory_order_relaxed);
    f_.store(f, std::memory_order_relaxed);
    end_.store(first + count, std::memory_order_relaxed);
    unfinished_.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
    auto const last = ticket_.load(std::memory_order_relaxed);
    ticket_.store(last - left_in(last) + (most + 1) + count, std::memory_order_release);
  }

  std::uint64_t left() const { return left_in(ticket_.load(std::memory_order_acquire)); }

  offer look() const {
    auto const ticket = ticket_.load(std::memory_order_acquire);
    return {ticket, call_.load(std::memory_order_relaxed), f_.load(std::memory_order_relaxed),
            end_.load(std::memory_order_relaxed) - left_in(ticket)};
  }

  bool claim(offer const& seen) {
    auto ticket = seen.ticket;
    return left_in(ticket) > 0 && ticket_.compare_exchange_strong(ticket, ticket - 1, std::memory_order_acquire);
  }

  /// Claims indices and calls the job's function with each index, until all indices are claimed.
  void help() {
    std::uint32_t finished = 0;
    for (auto seen = look(); left_in(seen.ticket) > 0; seen = look()) {
      if (claim(seen)) finished += 1 + skipped_by(seen);
    }
    // The decrement is sequentially consistent. With a weaker order, notify_one could check for waiters before the
    // decrement.
    if (finished > 0 && unfinished_.fetch_sub(finished) == finished) unfinished_.notify_one();
  }

  /// Waits until the calls of all claimed indices have returned.
  void wait() const {
    while (auto const n = unfinished_.load(std::memory_order_acquire)) {
      if (!changes_soon(unfinished_, n)) unfinished_.wait(n, std::memory_order_acquire);
    }
  }

  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  /// Returns the first exception that a job threw since the last call of this function, or null.
  std::exception_ptr take_error() {
    failed_.store(false, std::memory_order_relaxed);
    return std::exchange(error_, nullptr);
  }

 private:
  static std::uint64_t left_in(std::uint64_t ticket) { return ticket & most; }

  /// Calls the job's function with one index. If the function throws, closes the job and returns the number of
  /// unclaimed indices, which are skipped.
  std::uint32_t skipped_by(offer const& claimed) {
    try {
      claimed.call(claimed.f, claimed.i);
      return 0;
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
      return static_cast<std::uint32_t>(left_in(ticket_.fetch_and(~most)));
    }
  }

  alignas(64) std::atomic<std::uint64_t> ticket_ = 0;
  std::atomic<call_type> call_ = nullptr;
  std::atomic<void const*> f_ = nullptr;
  std::atomic<std::uint64_t> end_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint32_t> unfinished_ = 0;
};

}  // namespace detail

/// A parallel_runner with its own threads. run(count, f) divides the calls of f among the pool's threads and the
/// calling thread.
///
///   claims      each thread, including the caller, claims one index at a time, in ascending order. run waits for the
///               calls of all claimed indices, but never for a thread that has claimed no index
///   throws      run rethrows the first exception of f, after all claimed calls have returned. The remaining indices
///               may be skipped
///   nests       without deadlock. A run that starts during another run calls f only on its calling thread
///   requires    f must outlive the call. After fork, the child process must neither use nor destroy the pool
///   complexity  run does not allocate. The caller wakes at most one sleeping thread. A woken thread wakes at most two
///               others, while work remains
class thread_pool {
 public:
  /// `threads` includes the caller; 0 means one thread per core.
  explicit thread_pool(unsigned threads = 0) : thread_pool(without_workers()) {
    detail::require(threads <= 4096, "thread_pool: threads must be in [0, 4096], got ", threads);
    if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
    workers_.reserve(threads - 1);
    while (workers_.size() + 1 < threads) workers_.emplace_back([this] { work(); });
  }
  thread_pool(thread_pool const&) = delete;
  thread_pool& operator=(thread_pool const&) = delete;

  ~thread_pool() {
    stopping_.store(true, std::memory_order_relaxed);
    calls_.fetch_add(1);
    calls_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  template <detail::chunk_function F>
  void run(std::uint64_t count, F const& f) {
    if (count > 1 && !workers_.empty() && !running_.exchange(true, std::memory_order_acquire)) {
      return share([](void const* g, std::uint64_t i) { (*static_cast<F const*>(g))(i); }, std::addressof(f), count);
    }
    for (std::uint64_t i = 0; i < count; ++i) f(i);
  }

  template <detail::chunk_function F>
  void operator()(std::uint64_t count, F const& f) {
    run(count, f);
  }

 private:
  struct without_workers {};
  explicit thread_pool(without_workers) {}  // after this constructor, the destructor runs even if a thread cannot start

  void share(detail::claimed_job::call_type call, void const* f, std::uint64_t count) {
    for (std::uint64_t first = 0; first < count && !job_.failed(); first += job_.most) {
      job_.open(call, f, first, std::min(count - first, job_.most));
      calls_.fetch_add(1);
      wake(1);
      job_.help();
      job_.wait();
    }
    auto const error = job_.take_error();
    running_.store(false, std::memory_order_release);
    if (error) std::rethrow_exception(error);
  }

  void work() {
    for (;;) {
      auto const seen = calls_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      wake(2);
      job_.help();
      looking_.fetch_add(1);
      auto const called = detail::changes_soon(calls_, seen);
      looking_.fetch_sub(1);
      if (!called) calls_.wait(seen, std::memory_order_acquire);
    }
  }

  /// Wakes at most `at_most` workers, and only while more indices are unclaimed than this thread and the polling
  /// workers can claim at once.
  void wake(int at_most) {
    for (; at_most > 0 && job_.left() > 1 + looking_.load(); --at_most) calls_.notify_one();
  }

  detail::claimed_job job_;
  alignas(64) std::atomic<std::uint32_t> calls_ = 0;
  std::atomic<std::uint32_t> looking_ = 0;
  std::atomic<bool> running_ = false;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

static_assert(parallel_runner<thread_pool>);

}}  // namespace pith::PITH_ABI
