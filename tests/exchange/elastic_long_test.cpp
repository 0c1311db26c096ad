// tests/exchange/elastic_long_test.cpp — ten thousand jobs whose ranks come and go.
#include <doctest/doctest.h>

#include "exchange/elastic_schedule.hpp"

TEST_CASE("residuals and running means are conserved through ten thousand jobs whose ranks come and go") {
  for (auto const& what : elastic::codec_cases) {
    for (unsigned seed = 1000; seed < 1500; ++seed) {
      CAPTURE(what.codec);
      CAPTURE(seed);
      elastic::schedule(what, seed).run();
    }
  }
}
