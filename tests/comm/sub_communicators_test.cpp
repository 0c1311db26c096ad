// tests/comm/sub_communicators_test.cpp — communicators of groups of ranks.
#include <pith/comm/self.hpp>
#include <pith/comm/sub_communicators.hpp>
#include <pith/comm/threads.hpp>

#include <doctest/doctest.h>

#include "support/roundtrip.hpp"

using pith::subgroup;

namespace {

using threads = pith::thread_communicator;

}  // namespace

TEST_CASE("groups are rows, columns, and columns of columns") {
  for (unsigned rank = 0; rank < 8; ++rank) {
    CHECK(subgroup{2, 1}.color(rank) == rank / 2);
    CHECK(subgroup{4, 2}.color(rank) == rank % 2);
    CHECK(subgroup{2, 2}.color(rank) == rank / 4 * 2 + rank % 2);
    CHECK(subgroup().color(rank) == 0);
  }
  CHECK(subgroup().ranks(8) == 8);
  CHECK(subgroup{2, 4}.ranks(8) == 2);
}

TEST_CASE("each group has a communicator, in the order of its ranks, made once") {
  pith::run_ranks(8, [](threads comm) {
    auto all = pith::sub_communicators<threads>(comm);
    CHECK(&all.of({}) == &comm);
    for (auto const& g : {subgroup{2, 1}, subgroup{4, 2}, subgroup{2, 2}, subgroup{8, 1}, subgroup{1, 1}}) {
      CHECK_FALSE(all.has(g));
      all.add(g);
      auto const* const made = &all.of(g);
      all.add(g);
      CHECK(&all.of(g) == made);
      CHECK(made->size() == g.size);
      CHECK(made->rank() == comm.rank() / g.stride % g.size);
    }
  });
}

TEST_CASE("ranks that do not make such groups are refused, and so is a communicator that does not split") {
  pith::run_ranks(6, [](threads comm) {
    auto all = pith::sub_communicators<threads>(comm);
    CHECK_THROWS_WITH_AS(all.add({2, 2}),
                         "pith::sub_communicators::add: the number of ranks must be a multiple of 4, got 6",
                         std::invalid_argument);
  });
  auto comm = support::echo_communicator<2>();
  auto all = pith::sub_communicators<support::echo_communicator<2>>(comm);
  CHECK_NOTHROW(all.add({}));
  CHECK_THROWS_WITH_AS(
      all.add({2, 1}),
      "pith::sub_communicators::add: groups need a communicator with split(unsigned) that returns its own type",
      std::invalid_argument);
}
