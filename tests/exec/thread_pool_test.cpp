// tests/exec/thread_pool_test.cpp — every chunk runs once, on any thread, and no call waits for an idle thread.
#include <pith/exec/thread_pool.hpp>

#include <doctest/doctest.h>

#include <pthread.h>
#include <algorithm>
#include <csignal>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

/// How often each index was called; plain numbers, so that a sanitizer sees calls that are not ordered before the end.
template <pith::parallel_runner R>
std::vector<int> calls(R& run, std::uint64_t count) {
  auto seen = std::vector<int>(count);
  run(count, [&](std::uint64_t i) { ++seen[i]; });
  return seen;
}

void wait_until(std::atomic<bool> const& done) {
  while (!done) std::this_thread::yield();
}

/// Runs one chunk on the caller and one on a worker of a pool of two.
template <class Caller, class Worker>
void run_both(pith::thread_pool& pool, Caller const& on_caller, Worker const& on_worker) {
  auto const caller = std::this_thread::get_id();
  std::atomic<bool> here = false, there = false;
  pool.run(2, [&](std::uint64_t) {
    auto const mine = std::this_thread::get_id() == caller;
    (mine ? here : there) = true;
    wait_until(mine ? there : here);
    mine ? on_caller() : on_worker();
  });
}

/// Runs its chunks backwards, as an engine might.
struct backwards {
  template <class F>
  void operator()(std::uint64_t count, F const& f) const {
    while (count > 0) f(--count);
  }
};
struct takes_no_count {
  template <class F>
  void operator()(F const&) const {}
};

static_assert(pith::parallel_runner<pith::thread_pool>);
static_assert(pith::parallel_runner<std::reference_wrapper<pith::thread_pool>>);
static_assert(pith::parallel_runner<backwards const>);
static_assert(pith::parallel_runner<void(std::uint64_t, std::function<void(std::uint64_t)> const&)>);
static_assert(!pith::parallel_runner<takes_no_count>);
static_assert(!pith::parallel_runner<pith::thread_pool const>);

}  // namespace

TEST_CASE("every index is called once for any count and number of threads") {
  for (unsigned const threads : {1u, 2u, 3u, 8u}) {
    auto pool = pith::thread_pool(threads);
    CHECK(pool.threads() == threads);
    for (std::uint64_t const count : {0u, 1u, 2u, 1000u, 100'000u}) {
      CAPTURE(threads);
      CAPTURE(count);
      CHECK(calls(pool, count) == std::vector<int>(count, 1));
    }
  }
}

TEST_CASE("more indices than a ticket holds are called once too") {
  auto pool = pith::thread_pool(2);
  auto const count = 2 * pith::detail::claimed_job::most + 3;
  CHECK(calls(pool, count) == std::vector<int>(count, 1));
}

TEST_CASE("no number of threads means one a core") {
  CHECK(pith::thread_pool().threads() == std::max(1u, std::thread::hardware_concurrency()));
}

TEST_CASE("too many threads are refused in words") {
  CHECK_THROWS_WITH_AS(pith::thread_pool(4097), "pith::thread_pool: threads must be in [0, 4096], got 4097",
                       std::invalid_argument);
}

TEST_CASE("a pool of one runs on its caller") {
  auto pool = pith::thread_pool(1);
  auto const caller = std::this_thread::get_id();
  auto here = 0;
  pool.run(100, [&](std::uint64_t) { here += std::this_thread::get_id() == caller; });
  CHECK(here == 100);
}

TEST_CASE("many small runs follow each other") {
  auto pool = pith::thread_pool(3);
  auto sums = std::vector<std::uint64_t>(4);
  for (int run = 0; run < 100'000; ++run) pool.run(sums.size(), [&](std::uint64_t i) { sums[i] += i; });
  CHECK(sums == std::vector<std::uint64_t>{0, 100'000, 200'000, 300'000});
}

TEST_CASE("a pool may end at any time after a run") {
  for (int i = 0; i < 200; ++i) {
    auto pool = pith::thread_pool(3);
    CHECK(calls(pool, static_cast<std::uint64_t>(i % 5)) == std::vector<int>(static_cast<std::size_t>(i % 5), 1));
  }
}

TEST_CASE("a run inside a run is called once as well") {
  auto pool = pith::thread_pool(3);
  auto seen = std::vector<std::vector<int>>(50);
  pool.run(50, [&](std::uint64_t i) {
    seen[i].resize(200);
    pool.run(20, [&](std::uint64_t j) { pool.run(10, [&](std::uint64_t k) { ++seen[i][j * 10 + k]; }); });
  });
  CHECK(seen == std::vector(50, std::vector<int>(200, 1)));
}

TEST_CASE("a run inside a run stays on its thread") {
  auto pool = pith::thread_pool(2);
  auto strangers = std::atomic<int>(0);
  auto const nested = [&] {
    auto const self = std::this_thread::get_id();
    pool.run(100, [&](std::uint64_t) { strangers += std::this_thread::get_id() != self; });
  };
  run_both(pool, nested, nested);
  CHECK(strangers == 0);
}

TEST_CASE("several threads may run on one pool") {
  auto pool = pith::thread_pool(3);
  auto sums = std::vector<std::vector<std::uint64_t>>(4, std::vector<std::uint64_t>(37));
  {
    auto callers = std::vector<std::jthread>();
    for (auto& sum : sums) {
      callers.emplace_back([&pool, &sum] {
        for (int run = 0; run < 2000; ++run) pool.run(sum.size(), [&](std::uint64_t i) { sum[i] += i; });
      });
    }
  }
  auto expected = std::vector<std::uint64_t>(37);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 2000 * i;
  CHECK(sums == std::vector(4, expected));
}

TEST_CASE("a caller that finds the pool busy runs alone and does not wait") {
  auto pool = pith::thread_pool(2);
  std::atomic<bool> taken = false, done = false;
  auto const first = std::jthread([&] {
    pool.run(2, [&](std::uint64_t) {
      taken = true;
      wait_until(done);
    });
  });
  wait_until(taken);
  CHECK(calls(pool, 1000) == std::vector<int>(1000, 1));
  done = true;
}

TEST_CASE("an exception reaches the caller when all calls have returned") {
  for (unsigned const threads : {1u, 2u, 3u, 8u}) {
    auto pool = pith::thread_pool(threads);
    CAPTURE(threads);
    std::atomic<int> entered = 0, left = 0;
    auto const run = [&] {
      pool.run(1000, [&](std::uint64_t i) {
        ++entered;
        if (i == 7) throw std::runtime_error("seven");
        ++left;
      });
    };
    CHECK_THROWS_WITH_AS(run(), "seven", std::runtime_error);
    CHECK(entered == left + 1);
    CHECK(calls(pool, 1000) == std::vector<int>(1000, 1));
  }
}

TEST_CASE("an exception ends a long run early") {
  auto pool = pith::thread_pool(2);
  auto const most = pith::detail::claimed_job::most;
  std::atomic<std::uint64_t> entered = 0;
  auto const run = [&] {
    pool.run(3 * most, [&](std::uint64_t i) {
      ++entered;
      if (i == 7) throw std::runtime_error("seven");
    });
  };
  CHECK_THROWS_WITH_AS(run(), "seven", std::runtime_error);
  CHECK(entered <= most);
}

TEST_CASE("an exception of a worker and one of the caller reach the caller") {
  auto pool = pith::thread_pool(2);
  auto const fine = [] {};
  auto const fails = [] { throw std::runtime_error("out of paper"); };
  CHECK_THROWS_WITH_AS(run_both(pool, fine, fails), "out of paper", std::runtime_error);
  CHECK_THROWS_WITH_AS(run_both(pool, fails, fine), "out of paper", std::runtime_error);
  CHECK_THROWS_WITH_AS(run_both(pool, fails, fails), "out of paper", std::runtime_error);
  CHECK_NOTHROW(run_both(pool, fine, fine));
}

TEST_CASE("an exception of a run inside a run reaches the outer caller") {
  auto pool = pith::thread_pool(3);
  auto const inner = [](std::uint64_t j) {
    if (j == 3) throw std::out_of_range("three");
  };
  auto const run = [&] { pool.run(10, [&](std::uint64_t) { pool.run(5, inner); }); };
  CHECK_THROWS_WITH_AS(run(), "three", std::out_of_range);
  CHECK(calls(pool, 100) == std::vector<int>(100, 1));
}

TEST_CASE("the caller does all that a slow worker has not claimed") {
  auto pool = pith::thread_pool(2);
  auto const caller = std::this_thread::get_id();
  std::atomic<bool> claimed = false;
  std::atomic<int> by_caller = 0;
  pool.run(1000, [&](std::uint64_t) {
    if (std::this_thread::get_id() == caller) {
      wait_until(claimed);
      ++by_caller;
    } else {
      claimed = true;
      while (by_caller < 999) std::this_thread::yield();
    }
  });
  CHECK(by_caller == 999);
}

TEST_CASE("a worker that slept through the end of a job claims no call of the next job") {
  auto job = pith::detail::claimed_job();
  auto const count_up = [](void const* f, std::uint64_t i) { (*static_cast<std::vector<int>* const*>(f))->at(i) += 1; };
  auto old = std::vector<int>(3), next = std::vector<int>(3);
  auto* const to_old = &old;
  auto* const to_next = &next;
  job.open(count_up, &to_old, 0, 3);
  auto const seen = job.look();
  CHECK(seen.f == &to_old);
  job.help();
  CHECK_FALSE(job.claim(job.look()));
  job.open(count_up, &to_next, 0, 3);
  CHECK_FALSE(job.claim(seen));
  CHECK(job.left() == 3);
  job.help();
  CHECK(old == std::vector<int>(3, 1));
  CHECK(next == std::vector<int>(3, 1));
}

#if defined(__SANITIZE_THREAD__)
#define TEST_HAS_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_HAS_THREAD_SANITIZER
#endif
#endif
#ifndef TEST_HAS_THREAD_SANITIZER  // which holds signals back while a thread sleeps
namespace {

std::atomic<bool> stopped, released;
static_assert(std::atomic<bool>::is_always_lock_free);

void stop(int) {
  stopped = true;
  while (!released) {
  }
}

}  // namespace

TEST_CASE("a worker that the system stopped is not waited for") {
  auto pool = pith::thread_pool(2);
  auto worker = pthread_t();
  auto const nothing = [] {};
  run_both(pool, nothing, [&] { worker = pthread_self(); });
  std::signal(SIGUSR1, stop);
  REQUIRE(pthread_kill(worker, SIGUSR1) == 0);
  wait_until(stopped);
  CHECK(calls(pool, 1000) == std::vector<int>(1000, 1));
  released = true;
}
#endif
