// tests/quantize/eight_bit_test.cpp — signs and points of a dynamic tree.
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/eight_bit.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "support/conform.hpp"

using namespace support;
using pith::eight_bit;
using pith::snap;

namespace {

double point(std::uint32_t code) { return pith::detail::tree_point(code); }

/// The point that a search through all finds for y in [0, 1].
double nearest(double y) {
  std::uint32_t best = 0;
  for (std::uint32_t code = 1; code < 128; ++code) {
    if (std::abs(y - point(code)) <= std::abs(y - point(best))) best = code;
  }
  return point(best);
}
double below(double y) {
  std::uint32_t best = 0;
  while (best < 127 && point(best + 1) <= y) ++best;
  return point(best);
}

/// A bucket of eight that 1 scales: what `y` decodes to.
double decoded_beside_one(eight_bit const& codec, double y) { return decoded(codec, {y, 1, 0, 0, 0, 0, 0, 0})[0]; }

}  // namespace

TEST_CASE("eight_bit takes any input of any size and type") {
  conforms(eight_bit(128));
  conforms(eight_bit(0, snap::floor));
}

TEST_CASE("points ascend from 0 to 1 in six decades, and each decade has twice as many as the previous one") {
  CHECK(point(0) == 0);
  CHECK(point(127) == 1);
  for (std::uint32_t code = 1; code < 128; ++code) CHECK(point(code) > point(code - 1));
  for (int d = 1; d <= 6; ++d) {
    auto const begin = std::pow(10.0, d - 7);
    std::uint32_t inside = 0;
    for (std::uint32_t code = 1; code < 127; ++code) inside += begin <= point(code) && point(code) < 10 * begin;
    CHECK(inside == 1u << d);
  }
  CHECK(point(1) == doctest::Approx(2.75e-6));  // the middle of [1, 4.5) 1e-6
  CHECK(point(2) == doctest::Approx(7.25e-6));  // and of [4.5, 10) 1e-6
  CHECK(point(63) == doctest::Approx(0.1 + 0.35 / 64));
}

TEST_CASE_TEMPLATE_DEFINE("a value is found in its cell as by a search through all edges", How, cells) {
  constexpr auto table = pith::detail::make_cells<How::value>();
  auto const found = [&](float twice) {
    CAPTURE(twice);
    std::uint32_t code = 0;
    while (code < 127 && table.edge[code] <= twice) ++code;
    CHECK(pith::detail::tree_code<How::value>(twice) == code);
  };
  auto const beside = [&](float twice) {
    found(twice);
    found(std::nextafter(twice, 0.0f));
    if (twice < 2) found(std::nextafter(twice, 2.0f));
  };
  for (std::uint32_t code = 0; code < 127; ++code) beside(table.edge[code]);
  for (std::int32_t cell = 0; cell < table.count; ++cell) beside(table.begin(cell));
  for (float const small : {0.0f, 1e-40f, 1e-20f, 1e-6f}) beside(small);
}
TEST_CASE_TEMPLATE_INVOKE(cells, std::integral_constant<snap, snap::nearest>,
                          std::integral_constant<snap, snap::floor>);

TEST_CASE("points decode to themselves, and other values to the nearest point or, with floor, to the next lower one") {
  for (std::uint32_t code = 0; code < 128; ++code) {
    CHECK(decoded_beside_one(eight_bit(8), point(code)) == point(code));
    CHECK(decoded_beside_one(eight_bit(8), -point(code)) == -point(code));
    CHECK(decoded_beside_one(eight_bit(8, snap::floor), point(code)) == point(code));
  }
  auto random = std::mt19937_64(7);
  for (int i = 0; i < 3000; ++i) {
    double const y = static_cast<float>(std::pow(10.0, -7 * uniform(random)));
    CAPTURE(y);
    CHECK(decoded_beside_one(eight_bit(8), y) == nearest(y));
    CHECK(decoded_beside_one(eight_bit(8, snap::floor), -y) == -below(y));
  }
}

// GRACE floors y = |x| / max to a table that ends at 0.9957, and what is above becomes NaN, 0 as an integer.
TEST_CASE("regression against the reference: the largest magnitude is exact and not 0") {
  for (auto const how : {snap::nearest, snap::floor}) {
    CHECK(decoded(eight_bit(0, how), {3.7f, -5.3f, 0, 0.1f})[1] == -5.3f);
    CHECK(decoded(eight_bit(0, how), std::vector<double>(257, -0.7f)) == std::vector<double>(257, -0.7f));
    CHECK(decoded(eight_bit(0, how), {-1e-40f}) == std::vector<double>{-1e-40f});
    CHECK(decoded(eight_bit(0, how), {3e38f, 1}) == std::vector<double>{3e38f, 0});
    auto const x = widen(narrow<float>(normal_vector(20'000, 9)));
    auto const y = decoded(eight_bit(0, how), x);
    auto const most =
        std::max_element(x.begin(), x.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    CHECK(y[static_cast<std::size_t>(most - x.begin())] == *most);
  }
  // Of double 29 bits, rounded up.
  auto const y = decoded<double>(eight_bit(), {0.1, 0})[0];
  CHECK(y >= 0.1);
  CHECK(y <= 0.1 * (1 + 0x1p-28));
}

TEST_CASE("zeros stay zeros, and nothing is empty") {
  CHECK(decoded(eight_bit(), std::vector<double>(300)) == std::vector<double>(300));
  CHECK(decoded(eight_bit(), {}).empty());
  CHECK(decoded(eight_bit(8), {0, 0, 0, 0, 0, 0, 0, 0, 7}) == std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 7});
}

TEST_CASE("a bucket with NaN or infinity decodes to NaN and the others do not") {
  for (double const bad : {not_a_number, infinity, -infinity}) {
    auto x = normal_vector(24, 42);
    x[11] = bad;
    auto const y = decoded(eight_bit(8), x);
    for (std::size_t i = 0; i < 24; ++i) CHECK(std::isnan(y[i]) == (8 <= i && i < 16));
  }
}

TEST_CASE("the largest relative error of a bucket is 1 - delta") {
  for (auto const how : {snap::nearest, snap::floor}) {
    auto const codec = eight_bit(128, how);
    double worst = 0;
    for (std::uint32_t code = 1; code < 128; ++code) {
      auto const edge = how == snap::floor ? point(code) : (point(code - 1) + point(code)) / 2;
      auto x = std::vector<double>(128, static_cast<float>(edge * (1 - 0x1p-20)));  // just below where points change
      x[5] = 1;
      auto const lost = square(minus(decoded(codec, x), x)) / square(x);
      CHECK(lost <= 1 - codec.delta({128}));
      worst = std::max(worst, lost);
    }
    CHECK(worst >= 0.999 * (1 - codec.delta({128})));
  }
  CHECK(eight_bit().delta({1}) == 1);
  CHECK(eight_bit().delta({0}) == 1);
  CHECK(1 - eight_bit(128).delta({1000}) == doctest::Approx(0.00148).epsilon(0.01));
  CHECK(1 - eight_bit().delta({1'000'000}) == doctest::Approx(0.0156).epsilon(0.01));
}

TEST_CASE("the decoded values and the residual of error feedback add up to the gradients") {
  auto t = trial<float, pith::error_feedback<eight_bit>>(pith::error_feedback(eight_bit(128)), {300});
  auto& kept = std::get<1>(t.state().local().each).residual;
  auto sent = std::vector<double>(300), all = sent;
  for (std::uint64_t step = 0; step < 10; ++step) {
    auto const g = narrow<float>(normal_vector(300, step));
    auto const y = t.roundtrip(g);
    for (std::size_t i = 0; i < 300; ++i) sent[i] += y[i], all[i] += g[i];
  }
  // Each step rounds the sum and the difference, of numbers below 8, once.
  for (std::size_t i = 0; i < 300; ++i) CHECK(std::abs(sent[i] + kept.data()[i] - all[i]) <= 10 * 2 * 8 * 0x1p-24);
}

TEST_CASE("names") {
  CHECK(eight_bit().name() == "eight_bit");
  CHECK(eight_bit(128).name() == "eight_bit(128)");
  CHECK(eight_bit(0, snap::floor).name() == "eight_bit(0,floor)");
  CHECK_THROWS_WITH_AS(eight_bit(12), "pith::eight_bit: bucket must be 0 (whole tensor) or a multiple of 8, got 12",
                       std::invalid_argument);
}
