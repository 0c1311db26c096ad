// tests/comm/rank_groups_test.cpp — communicators of groups of ranks.
#include <pith/comm/rank_groups.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>

#include <doctest/doctest.h>

#include "support/roundtrip.hpp"

using pith::rank_group;

namespace {

using threads = pith::thread_communicator;

}  // namespace

TEST_CASE("groups are rows, columns, and columns of columns") {
  for (unsigned rank = 0; rank < 8; ++rank) {
    CHECK(rank_group{2, 1}.color(rank) == rank / 2);
    CHECK(rank_group{4, 2}.color(rank) == rank % 2);
    CHECK(rank_group{2, 2}.color(rank) == rank / 4 * 2 + rank % 2);
    CHECK(rank_group().color(rank) == 0);
  }
  CHECK(rank_group().ranks(8) == 8);
  CHECK(rank_group{2, 4}.ranks(8) == 2);
}

TEST_CASE("each group has a communicator, in the order of its ranks, made once") {
  pith::run_ranks(8, [](threads comm) {
    auto all = pith::rank_groups<threads>(comm);
    CHECK(&all.of({}) == &comm);
    for (auto const& g : {rank_group{2, 1}, rank_group{4, 2}, rank_group{2, 2}, rank_group{8, 1}, rank_group{1, 1}}) {
      CHECK_FALSE(all.has(g));
      all.add(g);
      auto const* const made = &all.of(g);
      all.add(g);
      CHECK(&all.of(g) == made);
      CHECK(made->size() == g.size);
      CHECK(made->rank() == comm.rank() / g.apart % g.size);
    }
  });
}

TEST_CASE("ranks that do not make such groups are refused, and so is a communicator that does not split") {
  pith::run_ranks(6, [](threads comm) {
    auto all = pith::rank_groups<threads>(comm);
    CHECK_THROWS_WITH_AS(all.add({2, 2}), "pith::rank_groups::add: the number of ranks must be a multiple of 4, got 6",
                         std::invalid_argument);
  });
  auto comm = support::echo_communicator<2>();
  auto all = pith::rank_groups<support::echo_communicator<2>>(comm);
  CHECK_NOTHROW(all.add({}));
  CHECK_THROWS_WITH_AS(
      all.add({2, 1}),
      "pith::rank_groups::add: groups need a communicator with split(unsigned) that returns its own type",
      std::invalid_argument);
}
