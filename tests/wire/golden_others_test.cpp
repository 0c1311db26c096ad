// tests/wire/golden_others_test.cpp — golden frames of elements other than float.
#include <doctest/doctest.h>

#include "wire/golden_frames.hpp"

TEST_CASE_TEMPLATE("golden frames decode to their stored values, and their inputs encode to the same frames", In,
                   double, pith::half, pith::bfloat16) {
  support::check_golden_frames<In>();
}
