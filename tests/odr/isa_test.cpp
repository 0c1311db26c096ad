// tests/odr/isa_test.cpp — units compiled for different CPUs keep their own loops in one program, linked in any order.
#include <doctest/doctest.h>

#include "odr/unit.hpp"

TEST_CASE("translation units for different instruction sets instantiate different functions that give equal bytes") {
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) {
    MESSAGE("skipped: this CPU cannot run one of the units");
    return;
  }
  auto const baseline = report_of_baseline(), avx512 = report_of_avx512();
  CHECK(baseline.executor != avx512.executor);
  CHECK(baseline.loop != avx512.loop);
  CHECK(baseline.best == avx512.best);
  CHECK(baseline.bytes == avx512.bytes);
}
