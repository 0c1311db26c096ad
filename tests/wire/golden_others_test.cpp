// tests/wire/golden_others_test.cpp — golden frames of elements other than float.
#include <doctest/doctest.h>

#include "wire/golden_frames.hpp"

TEST_CASE_TEMPLATE("golden frames decode to their values and are what their inputs encode to", In, double, pith::half,
                   pith::bfloat16) {
  support::check_golden_frames<In>();
}
