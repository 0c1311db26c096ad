// tests/lowrank/reproducible_test.cpp — the same bytes with every instruction set and in any order of blocks.
#include <pith/lowrank/one_sided_power_sgd.hpp>

#include <doctest/doctest.h>

#include "support/reproducible.hpp"

using namespace support;

TEST_CASE_TEMPLATE("low rank gives the same bytes everywhere", In, float, double, pith::half, pith::bfloat16) {
  for (auto const& dims : {pith::shape{150 * 700, 150}, pith::shape{700 * 61, 700}, pith::shape{9 * 8300, 9}}) {
    for (unsigned const rank : {1u, 3u, 4u}) is_reproducible<In>(pith::power_sgd(rank), dims);
    is_reproducible<In>(pith::one_sided_power_sgd(3), dims);
  }
}
