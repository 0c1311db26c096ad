// tests/core/elementary_test.cpp — ln and exp against those of long double.
#include <pith/core/detail/elementary.hpp>
#include <pith/core/digest.hpp>

#include <doctest/doctest.h>

#include "support/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

using pith::detail::exp_of;
using pith::detail::ln;
using support::infinity;

namespace {

/// How far off, in parts of what it should be. Long double has 11 bits more.
double off(double got, long double expected) {
  return static_cast<double>(std::abs((static_cast<long double>(got) - expected) / expected));
}

}  // namespace

TEST_CASE("ln is off by less than 2^-51 of itself for each float of some binades") {
  double worst = 0;
  for (std::uint32_t bits = 0x3f000000; bits < 0x40800000; bits += 3) {  // from 1/2 to 4, every third one
    auto const x = static_cast<double>(pith::detail::bits_as<float>(bits));
    if (x != 1) worst = std::max(worst, off(ln(x), std::log(static_cast<long double>(x))));
  }
  MESSAGE("at most ", worst * 0x1p53, " times 2^-53");
  CHECK(worst < 0x1p-51);
}

TEST_CASE("ln is off by less than 2^-51 of itself everywhere") {
  auto random = std::mt19937_64(1);
  double worst = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    auto const x = pith::detail::bits_as<double>(random() >> 1);
    if (std::isfinite(x)) worst = std::max(worst, off(ln(x), std::log(static_cast<long double>(x))));
  }
  for (int i = 0; i < 1'000'000; ++i) {  // near 1, where ln is small
    auto const x = 1 + std::ldexp(static_cast<double>(random() >> 11) - 0x1p52, -54 - static_cast<int>(random() % 45));
    if (x != 1) worst = std::max(worst, off(ln(x), std::log(static_cast<long double>(x))));
  }
  CHECK(worst < 0x1p-51);
}

TEST_CASE("exp is off by less than 2^-51 of itself, or of the least normal number") {
  auto random = std::mt19937_64(2);
  double worst = 0, tiny = 0;
  for (int i = 0; i < 3'000'000; ++i) {
    auto const x = (static_cast<double>(random() >> 11) * 0x1p-53 * 1456 - 746) * (i % 3 == 0 ? 1 : 1e-3);
    auto const expected = std::exp(static_cast<long double>(x));
    if (expected > 0x1p1023L) continue;
    if (expected >= 0x1p-1022L) {
      worst = std::max(worst, off(exp_of(x), expected));
    } else {
      tiny = std::max(tiny, static_cast<double>(std::abs(static_cast<long double>(exp_of(x)) - expected) * 0x1p1000L));
    }
  }
  MESSAGE("at most ", worst * 0x1p53, " times 2^-53");
  CHECK(worst < 0x1p-51);
  CHECK(tiny < 0x1p-73);
}

// Which stays what it is at -O0 and -O3, with and without fused multiply-add, by g++ and clang++.
TEST_CASE("the bits are known") {
  auto random = std::mt19937_64(3);
  auto digest = pith::digest();
  for (int i = 0; i < 100'000; ++i) {
    auto const x = static_cast<double>(random() >> 11) * 0x1p-43;
    digest << pith::detail::bits_as<std::uint64_t>(ln(x))
           << pith::detail::bits_as<std::uint64_t>(exp_of(0.7 * (x - 512)));
  }
  CHECK(digest.value() == 0xa80fdfa1ba35a6bu);
}

TEST_CASE("ends of ranges") {
  CHECK(ln(1) == 0);
  CHECK(ln(0) == -infinity);
  CHECK(ln(-0.0) == -infinity);
  CHECK(ln(infinity) == infinity);
  CHECK(std::isnan(ln(-1)));
  CHECK(std::isnan(ln(-infinity)));
  CHECK(std::isnan(ln(std::numeric_limits<double>::quiet_NaN())));
  CHECK(off(ln(4.9e-324), std::log(static_cast<long double>(4.9e-324))) < 0x1p-51);
  CHECK(off(ln(std::numeric_limits<double>::max()), std::log(static_cast<long double>(1.7976931348623157e308))) <
        0x1p-51);
  CHECK(exp_of(0) == 1);
  CHECK(exp_of(-infinity) == 0);
  CHECK(exp_of(infinity) == infinity);
  CHECK(exp_of(709.78) < infinity);
  CHECK(exp_of(709.79) == infinity);
  CHECK(exp_of(-745.2) == 0);
  CHECK(exp_of(-745) == 4.9e-324);
  CHECK(std::isnan(exp_of(std::numeric_limits<double>::quiet_NaN())));
}
