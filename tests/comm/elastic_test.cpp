// tests/comm/elastic_test.cpp — jobs that lose ranks, shrink and grow, and go on.
#include <doctest/doctest.h>

#include "elastic_schedule.hpp"

TEST_CASE("what waits is conserved while ranks come and go") {
  for (auto const& what : elastic::codec_cases) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      CAPTURE(what.codec);
      CAPTURE(seed);
      elastic::schedule(what, seed).run();
    }
  }
}
