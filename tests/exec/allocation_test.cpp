// tests/exec/allocation_test.cpp — work is shared with threads without an allocation.
#include <pith/exec/thread_pool.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/allocations.hpp"

using support::allocations;

TEST_CASE("a pool is allocated once and its runs allocate nothing") {
  auto sums = std::vector<std::uint64_t>(100);
  auto const without = allocations.load();
  auto pool = pith::thread_pool(3);
  auto const before = allocations.load();
  CHECK(before > without);
  for (int run = 0; run < 100; ++run) pool.run(sums.size(), [&](std::uint64_t i) { ++sums[i]; });
  CHECK(allocations.load() == before);
}
