// tests/exec/par_test.cpp — the bytes of seq with any number of threads and any runner, and what a pool promises.
#include <pith/exec/par.hpp>
#include <pith/exec/parallel_runner.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/allocations.hpp"
#include "support/codecs.hpp"
#include "support/executed.hpp"

using namespace support;

namespace {

/// An engine's own threads: runs chunks backwards on two of them, and does not expose their number.
struct engine {
  std::atomic<std::uint64_t> runs = 0;

  template <class F>
  void operator()(std::uint64_t count, F const& f) {
    ++runs;
    auto const odd = std::jthread([&] {
      for (auto i = count; i-- > 0;)
        if (i % 2 == 1) f(i);
    });
    for (auto i = count; i-- > 0;)
      if (i % 2 == 0) f(i);
  }
};

/// Stops after the first chunk if `fails` is true.
struct stopping_engine {
  bool fails = false;

  template <class F>
  void operator()(std::uint64_t count, F const& f) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (fails && i == 1) throw std::runtime_error("stopped");
      f(i);
    }
  }
};

static_assert(pith::executor<pith::par_executor<pith::thread_pool>>);
static_assert(pith::detail::host_executor<pith::par_executor<engine>>);
static_assert(std::is_same_v<decltype(pith::par()), pith::par_executor<pith::thread_pool>>);

/// Large enough that every block and every index is shared with the threads.
constexpr std::uint64_t many = 98'307;

template <class In>
struct same_as_seq {
  std::deque<pith::thread_pool>& pools;

  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    auto const expected = executed<In>(pith::seq, codec, dims);
    for (auto& pool : pools) {
      CAPTURE(pool.threads());
      CHECK(executed<In>(pith::par(pool), codec, dims) == expected);
    }
  }
};

std::deque<pith::thread_pool> pools_of(std::initializer_list<unsigned> threads) {
  auto pools = std::deque<pith::thread_pool>();
  for (auto const n : threads) pools.emplace_back(n);
  return pools;
}

struct mark {
  std::atomic<int>* seen;
  void operator()(std::uint64_t i) const { ++seen[i]; }
};

}  // namespace

TEST_CASE("payloads and states and decoded tensors have the bytes of seq with any number of threads") {
  auto pools = pools_of({3, 8});
  with_codecs(many, same_as_seq<float>{pools});
}

TEST_CASE_TEMPLATE("other element types have the bytes of seq", In, double, pith::half, pith::bfloat16) {
  auto pools = pools_of({3});
  with_kinds_of_quantizers(many, same_as_seq<In>{pools});
}

TEST_CASE("tensors of all sizes have the bytes of seq") {
  auto pools = pools_of({1, 2, 3});
  for (auto const n : std::initializer_list<std::uint64_t>{0, 1, 511, 512, 513, 65'535, 65'536, 65'537, many}) {
    CAPTURE(n);
    same_as_seq<float>{pools}(pith::error_feedback(pith::scaled_sign()), {n});
    same_as_seq<float>{pools}(pith::qsgd<8>(), {n});
  }
}

TEST_CASE("an engine runs the chunks on its own threads") {
  auto own = engine();
  auto const codec = pith::error_feedback(pith::qsgd<8>());
  auto const expected = executed<float>(pith::seq, codec, {many});
  CHECK(executed<float>(pith::par(own), codec, {many}) == expected);
  CHECK(own.runs > 0);
}

TEST_CASE("a runner whose type is erased runs the same chunks") {
  auto own = engine();
  auto pool = pith::thread_pool(3);
  auto const codec = pith::error_feedback(pith::qsgd<8>());
  auto const expected = executed<float>(pith::seq, codec, {many});
  auto of_engine = pith::any_runner(own), of_pool = pith::any_runner(pool);
  CHECK(executed<float>(pith::par(of_engine), codec, {many}) == expected);
  CHECK(own.runs > 0);
  CHECK(executed<float>(pith::par(of_pool), codec, {many}) == expected);
  CHECK(of_pool.threads() == 3);
  auto const before = allocations.load();
  pith::par(of_pool).for_each_index(many, [](std::uint64_t) {});
  CHECK(allocations.load() == before);
  auto const thrower = [](std::uint64_t i) {
    if (i == 77'777) throw std::runtime_error("no luck");
  };
  CHECK_THROWS_WITH_AS(pith::par(of_pool).for_each_index(many, thrower), "no luck", std::runtime_error);
}

TEST_CASE("every index and every block is called once") {
  auto pool = pith::thread_pool(3);
  for (std::uint64_t const n : {0u, 1u, 4095u, 4097u, 65'537u, 300'001u}) {
    CAPTURE(n);
    auto seen = std::vector<std::atomic<int>>(n);
    pith::par(pool).for_each_index(n, mark{seen.data()});
    auto once = std::uint64_t{0};
    for (auto const& times : seen) once += times == 1;
    CHECK(once == n);
  }
}

TEST_CASE("chunks cover the work once and are no more than 64 a thread") {
  for (std::uint64_t const work : {1u, 31u, 32u, 33u, 4096u, 100'000u, 1'000'003u}) {
    for (unsigned const threads : {1u, 3u, 64u}) {
      CAPTURE(work);
      CAPTURE(threads);
      auto const over = pith::detail::chunking(work, 32, threads);
      CHECK(over.grain >= 32);
      CHECK(over.count() <= 64 * threads);
      CHECK(over.first(0) == 0);
      for (std::uint64_t c = 1; c < over.count(); ++c) CHECK(over.first(c) == over.last(c - 1));
      CHECK(over.last(over.count() - 1) == work);
    }
  }
}

TEST_CASE("bytes are copied and filled in parallel as by one thread") {
  auto pool = pith::thread_pool(3);
  auto const exec = pith::par(pool);
  for (std::size_t const n : {std::size_t{5}, (std::size_t{1} << 20) - 1, (std::size_t{3} << 20) + 7}) {
    CAPTURE(n);
    auto from = std::vector<std::byte>(n + 1);
    for (std::size_t i = 0; i < n; ++i) from[i] = static_cast<std::byte>(i * 31 + i / 256);
    auto to = std::vector<std::byte>(n + 1);
    exec.copy(to.data(), from.data(), n);
    CHECK(to == from);
    exec.copy(to.data() + 1, to.data(), n);  // overlapping
    CHECK(std::equal(to.begin() + 1, to.end(), from.begin()));
    exec.fill(from.data(), std::byte{7}, n);
    CHECK(std::count(from.begin(), from.end(), std::byte{7}) == static_cast<std::ptrdiff_t>(n));
    CHECK(from[n] == std::byte{});
  }
  CHECK_NOTHROW(exec.copy(nullptr, nullptr, 0));
  CHECK_NOTHROW(exec.fill(nullptr, std::byte{1}, 0));
}

TEST_CASE("an executor of no runner works on its caller") {
  auto const codec = pith::qsgd<8>();
  auto const none = pith::par_executor<pith::thread_pool>();
  CHECK(executed<float>(none, codec, {many}) == executed<float>(pith::seq, codec, {many}));
}

TEST_CASE("several threads may use one pool and runs may nest in runs") {
  auto pool = pith::thread_pool(3);
  auto const codec = pith::error_feedback(pith::scaled_sign());
  auto const expected = executed<float>(pith::seq, codec, {many});
  auto got = std::vector<std::vector<std::byte>>(4);
  {
    auto callers = std::vector<std::jthread>();
    for (std::size_t i = 0; i < 2; ++i)
      callers.emplace_back([&, i] { got[i] = executed<float>(pith::par(pool), codec, {many}); });
  }
  pool.run(2, [&](std::uint64_t i) { got[2 + i] = executed<float>(pith::par(pool), codec, {many}); });
  CHECK(got == std::vector(4, expected));
}

TEST_CASE("an exception that a loop body throws reaches the caller") {
  auto pool = pith::thread_pool(3);
  auto const thrower = [](std::uint64_t i) {
    if (i == 77'777) throw std::runtime_error("no luck");
  };
  CHECK_THROWS_WITH_AS(pith::par(pool).for_each_index(many, thrower), "no luck", std::runtime_error);
  CHECK_NOTHROW(pith::par(pool).for_each_index(many, pith::detail::noop{}));
}

TEST_CASE("a level beyond the build is refused in words") {
  auto pool = pith::thread_pool(1);
  CHECK(pith::par(pool, pith::isa::baseline).level() == pith::isa::baseline);
  CHECK(pith::par(pool).level() == pith::best_isa());
  if (pith::best_isa() == pith::isa::avx512) return;
  CHECK_THROWS_AS(static_cast<void>(pith::par(pool, pith::isa::avx512)), std::invalid_argument);
}

TEST_CASE("the pool of the process is one") {
  auto const codec = pith::qsgd<8>();
  CHECK(&pith::detail::common_pool() == &pith::detail::common_pool());
  CHECK(executed<float>(pith::par(), codec, {many}) == executed<float>(pith::seq, codec, {many}));
}

namespace {

struct allocates_nothing {
  pith::thread_pool& pool;

  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    auto run = execution<float, pith::par_executor<pith::thread_pool>, C>(pith::par(pool), codec, dims);
    run.step();
    auto const before = allocations.load();
    run.step();
    CHECK(allocations.load() == before);
  }
};

}  // namespace

TEST_CASE("compress and decompress allocate nothing") {
  auto pool = pith::thread_pool(3);
  with_codecs(many, allocates_nothing{pool});
}

TEST_CASE("a step in which the runner throws does not change the scales of later steps") {
  auto run = stopping_engine();
  auto const exec = pith::par(run);
  auto const codec = pith::scaled_sign();
  auto const dims = pith::vector(many);
  auto const x = narrow<float>(normal_vector(many, 5));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(exec, codec, dims));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto const payload_of = [&](auto& state) {
    auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, dims));
    pith::compress(exec, codec, pith::span<float const>(x), pith::span<std::byte>(payload), state, ws);
    return payload;
  };
  auto state = pith::make_state<float>(exec, codec, dims), other = pith::make_state<float>(exec, codec, dims);
  run.fails = true;
  CHECK_THROWS_WITH_AS(payload_of(state), "stopped", std::runtime_error);
  run.fails = false;
  CHECK(payload_of(state) == payload_of(other));
}
