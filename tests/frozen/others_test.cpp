// tests/frozen/others_test.cpp — the bytes that elements other than float become on seq, and those of large tensors.
#include <doctest/doctest.h>

#include "frozen/check.hpp"
#include "support/parsed.hpp"

TEST_CASE_TEMPLATE("other elements become the bytes of their rows on seq", In, double, pith::half, pith::bfloat16) {
  frozen::check<In>(pith::seq, "small");
}

TEST_CASE("large tensors become the bytes of their rows on seq") { frozen::check<float>(pith::seq, "large"); }
