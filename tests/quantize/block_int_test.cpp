// tests/quantize/block_int_test.cpp — multiples of a bucket's scale, rounded to nearest.
#include <pith/exchange/two_shot.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/block_int.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "support/conform.hpp"

using namespace support;
using pith::block_int;

namespace {

/// The scale of a bucket whose largest magnitude is `largest`: the next number with 8 significant bits.
double scale_of(double largest, int levels) {
  auto const exact = largest / levels;
  auto const unit = std::ldexp(1.0, std::ilogb(exact) - 7);
  return std::ceil(exact / unit) * unit;
}

template <int Bits>
std::vector<double> by_hand(std::vector<double> const& x) {
  constexpr int levels = (1 << (Bits - 1)) - 1;
  double largest = 0;
  for (auto const v : x) largest = std::max(largest, std::abs(v));
  auto y = x;
  for (auto& v : y) v = largest == 0 ? 0 : std::nearbyint(v / scale_of(largest, levels)) * scale_of(largest, levels);
  return y;
}

}  // namespace

TEST_CASE("block_int takes any input of any size and type") {
  conforms(block_int<8>());
  conforms(block_int<2>(8));
  conforms(block_int<5>(0));
}

TEST_CASE("eight numbers by hand") {
  auto const x = std::vector<double>{0.7, -1.4, 0.1, 0, 0.35, -0.05, 1, 0.21};
  auto const scale = 205.0 / 1024;  // 1.4 / 7 = 0.2, rounded up to 8 bits
  auto const y = decoded(block_int<4>(8), x);
  auto const levels = std::vector<double>{3, -7, 0, 0, 2, 0, 5, 1};
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(y[i] == levels[i] * scale);
  auto t = trial<float, block_int<4>>(block_int<4>(8), {8});
  auto const payload = t.compress(narrow<float>(x));
  CHECK(payload.size() == 8 + 2);
  CHECK(payload[0] == std::byte{0x93});  // 3, and -7 in two's complement
  CHECK(payload[1] == std::byte{0x00});
  CHECK(payload[2] == std::byte{0x02});
  CHECK(payload[3] == std::byte{0x15});
}

TEST_CASE("each element goes to the nearest multiple, ties to even ones") {
  for (std::size_t const n : {1u, 7u, 8u, 129u}) {
    auto const x = widen(narrow<float>(normal_vector(n, n)));
    CHECK(decoded(block_int<8>(0), x) == by_hand<8>(x));
    CHECK(decoded(block_int<3>(0), x) == by_hand<3>(x));
  }
  CHECK(decoded(block_int<8>(), {127, 0.5, 1.5, -2.5, 126.5}) == std::vector<double>{127, 0, 2, -2, 126});
}

TEST_CASE("a bucket of zeros stays zero, and NaN or infinity spoils its own bucket") {
  CHECK(decoded(block_int<8>(8), std::vector<double>(9)) == std::vector<double>(9));
  auto x = std::vector<double>(16, 1.0);
  x[3] = not_a_number;
  auto const y = decoded(block_int<8>(8), x);
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::isnan(y[i]));
  for (std::size_t i = 8; i < 16; ++i) CHECK(y[i] == doctest::Approx(1).epsilon(0x1p-7));
  x[3] = -infinity;
  CHECK(std::isnan(decoded(block_int<8>(8), x)[0]));
}

TEST_CASE("delta is met by one element at the maximum and others of half a scale, but for the scale's rounding") {
  constexpr std::size_t n = 32;
  auto x = std::vector<double>(n, std::nextafter(0.5f, 0.0f));
  x[0] = 7;
  auto const left = square(minus(x, decoded(block_int<4>(32), x))) / square(x);
  CHECK(left == doctest::Approx((n - 1) / (4.0 * 49 + n - 1)).epsilon(1e-6));
  CHECK(left <= 1 - block_int<4>(32).delta({n}));
  CHECK(block_int<4>(0).delta({0}) == 1);
  CHECK(block_int<8>().delta({1000}) == doctest::Approx(0.998).epsilon(0.001));
}

TEST_CASE("doubles beyond the range of float are kept if their scale is a bfloat16, and decode to NaN otherwise") {
  auto t = trial<double, block_int<8>>(block_int<8>(), {2});
  CHECK(t.roundtrip(std::vector<double>{127 * 0x1p125, -0x1p125}) == std::vector<double>{127 * 0x1p125, -0x1p125});
  for (auto const v : t.roundtrip(std::vector<double>{0x1p135, 1})) CHECK(std::isnan(v));
}

TEST_CASE("names are those of texts, and a bucket is whole bytes of symbols") {
  CHECK(block_int<8>().name() == "block_int<8>");
  CHECK(block_int<4>(32).name() == "block_int<4>(32)");
  CHECK(block_int<2>(0).name() == "block_int<2>(0)");
  CHECK_THROWS_WITH_AS(block_int<8>(12), "pith::block_int: bucket must be 0 (whole tensor) or a multiple of 8, got 12",
                       std::invalid_argument);
}
