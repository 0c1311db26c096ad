// tests/comm/threads_test.cpp — ranks that are threads, and a group of one.
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>

#include <comm/conformance.hpp>

#include <atomic>
#include <stdexcept>

TEST_CASE("a group of one conforms") {
  auto comm = pith::self_communicator();
  conformance::check(comm);
}

TEST_CASE("threads conform for 1 to 8 ranks") {
  for (unsigned ranks : {1u, 2u, 3u, 4u, 8u}) {
    std::atomic<unsigned> ran = 0;
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      conformance::check(comm);
      ++ran;
    });
    CHECK(ran == ranks);
  }
}

TEST_CASE("a rank that throws ends the group with its own error") {
  auto const run = [] {
    pith::run_ranks(3, [](pith::thread_communicator comm) {
      if (comm.rank() == 1) throw std::runtime_error("out of paper");
      conformance::check(comm);
    });
  };
  CHECK_THROWS_WITH_AS(run(), "out of paper", std::runtime_error);
}

TEST_CASE("a rank that returns early does not leave the others waiting") {
  auto const run = [] {
    pith::run_ranks(3, [](pith::thread_communicator comm) {
      if (comm.rank() != 2) conformance::gathers(comm, 5);
    });
  };
  CHECK_THROWS_WITH_AS(run(), "pith::threads: another rank left the group", pith::communication_error);
}

TEST_CASE("a group that a rank left stays broken however often the others try") {
  std::atomic<int> refused = 0;
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    if (comm.rank() == 2) return;
    for (int attempt = 0; attempt < 4; ++attempt) {
      try {
        conformance::gathers(comm, 5);
      } catch (pith::communication_error const&) {
        ++refused;
      }
    }
  });
  CHECK(refused == 8);
}

TEST_CASE("bad arguments are refused in words") {
  CHECK_THROWS_WITH_AS(pith::run_ranks(0, [](pith::thread_communicator) {}),
                       "pith::run_ranks: ranks must be in [1, 65534], got 0", std::invalid_argument);
  auto const run = [] {
    pith::run_ranks(2, [](pith::thread_communicator comm) {
      auto mine = std::vector<std::byte>(8), all = std::vector<std::byte>(15);
      comm.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all));
    });
  };
  CHECK_THROWS_WITH_AS(run(), "pith::threads: all_gather needs room for 16 bytes, got 15", std::invalid_argument);
}
