// tests/comm/shaped_test.cpp — calls take as long as over links of a given rate and delay.
#include <pith/comm/shaped.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exec/seq.hpp>

#include <comm/conformance.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;

namespace {

using shaped_threads = pith::shaped<pith::thread_communicator>;
using clock_type = std::chrono::steady_clock;

constexpr pith::link_shape link = {.bits_per_second = 8e6, .delay = 20ms};  // 1 byte per microsecond

/// The least seconds of three calls on rank 0 of four ranks. A loaded machine only makes calls longer.
template <class Call>
double seconds_of(Call const& call) {
  double least = HUGE_VAL;
  pith::run_ranks(4, [&](pith::thread_communicator ranks) {
    auto comm = shaped_threads(link, ranks);
    for (int i = 0; i < 3; ++i) {
      auto const begun = clock_type::now();
      call(comm);
      auto const took = std::chrono::duration<double>(clock_type::now() - begun).count();
      if (comm.rank() == 0) least = std::min(least, took);
    }
  });
  return least;
}

}  // namespace

static_assert(pith::calls_of<shaped_threads, pith::seq_executor> == pith::optional_calls::all());

TEST_CASE("a shaped communicator conforms") {
  pith::run_ranks(3, [](pith::thread_communicator ranks) {
    auto comm = shaped_threads(pith::link_shape(), ranks);
    conformance::check(pith::seq, comm);
  });
}

TEST_CASE("a call takes s / rate + h delay") {
  auto const near = [](double seconds) { return doctest::Approx(seconds).epsilon(0.05); };
  auto const exec = pith::seq;

  CHECK(seconds_of([&](shaped_threads& comm) {
          auto mine = std::vector<std::byte>(40'000), all = std::vector<std::byte>(160'000);
          comm.all_gather(exec, pith::span<std::byte const>(mine), pith::span<std::byte>(all)).wait(exec);
        }) == near(3 * 0.040 + 0.020));
  CHECK(seconds_of([&](shaped_threads& comm) {
          auto mine = std::vector<std::byte>(160'000), all = mine;
          comm.all_to_all(exec, pith::span<std::byte const>(mine), pith::span<std::byte>(all)).wait(exec);
        }) == near(3 * 0.040 + 0.020));
  CHECK(seconds_of([&](shaped_threads& comm) {
          auto x = std::vector<float>(20'000);
          comm.all_reduce(exec, pith::span<float>(x), pith::reduction::sum).wait(exec);
        }) == near(2 * 3 * 0.020 + 2 * 0.020));
}

TEST_CASE("calls share a link") {
  CHECK(seconds_of([](shaped_threads& comm) {
          auto mine = std::vector<std::byte>(40'000), all = std::vector<std::byte>(160'000), more = all;
          auto first = comm.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all));
          auto part = comm.split(0);
          part.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(more)).wait(pith::seq);
          CHECK(first.test(pith::seq));
        }) == doctest::Approx(2 * 3 * 0.040 + 0.020).epsilon(0.05));
}

TEST_CASE("links that cannot be are refused") {
  pith::run_ranks(1, [](pith::thread_communicator ranks) {
    CHECK_THROWS_AS(shaped_threads({.bits_per_second = 0}, ranks), std::invalid_argument);
    CHECK_THROWS_AS(shaped_threads({.delay = -1s}, ranks), std::invalid_argument);
  });
}
