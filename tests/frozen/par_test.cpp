// tests/frozen/par_test.cpp — the same bytes by any number of threads.
#include <pith/exec/par.hpp>

#include <doctest/doctest.h>

#include "frozen/check.hpp"

TEST_CASE("threads make the bytes of the rows") {
  for (unsigned const threads : {1u, 3u}) {
    auto pool = pith::thread_pool(threads);
    CAPTURE(threads);
    frozen::check<float>(pith::par_executor(pool), "small");
  }
}
