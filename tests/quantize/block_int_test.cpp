// tests/quantize/block_int_test.cpp — multiples of a bucket's scale, rounded to nearest.
#include <pith/collective/two_shot.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/block_int.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "support/conform.hpp"

using namespace support;
using pith::block_int;
namespace options = pith::options;

namespace {

/// The scale of a bucket whose largest magnitude is `largest`: the next number with 8 significant bits.
double scale_of(double largest, int levels) {
  auto const exact = largest / levels;
  auto const unit = std::ldexp(1.0, std::ilogb(exact) - 7);
  return std::ceil(exact / unit) * unit;
}

/// The nearest multiples of a scale, up to `levels` of them.
std::vector<double> rounded(std::vector<double> x, double scale, int levels) {
  for (auto& v : x) v = scale == 0 ? 0 : std::clamp<double>(std::nearbyint(v / scale), -levels, levels) * scale;
  return x;
}
double largest_of(std::vector<double> const& x) {
  double largest = 0;
  for (auto const v : x) largest = std::max(largest, std::abs(v));
  return largest;
}

template <int Bits>
std::vector<double> by_hand(std::vector<double> const& x) {
  constexpr int levels = (1 << (Bits - 1)) - 1;
  auto const largest = largest_of(x);
  return rounded(x, largest == 0 ? 0 : scale_of(largest, levels), levels);
}

/// The bucket x with the scale of the four that has the least squared error.
std::vector<double> clipped_by_hand(std::vector<double> const& x, int levels) {
  auto const scale = scale_of(largest_of(x), levels);
  auto best = rounded(x, scale, levels);
  for (auto const factor : {0.8, 0.6, 0.45}) {
    auto const next = rounded(x, scale_of(factor * scale, 1), levels);
    if (square(minus(x, next)) < square(minus(x, best))) best = next;
  }
  return best;
}
std::vector<double> clipped_by_hand(std::vector<double> const& x, std::size_t width, int levels) {
  auto y = std::vector<double>();
  for (auto rest = std::span(x); !rest.empty(); rest = rest.subspan(std::min(width, rest.size()))) {
    auto const bucket = rest.first(std::min(width, rest.size()));
    auto const of_bucket = clipped_by_hand({bucket.begin(), bucket.end()}, levels);
    y.insert(y.end(), of_bucket.begin(), of_bucket.end());
  }
  return y;
}

double relative_error(auto const& codec, std::vector<double> const& x) {
  return square(minus(x, decoded(codec, x))) / square(x);
}

}  // namespace

TEST_CASE("block_int takes any input of any size and type") {
  conforms(block_int<8>());
  conforms(block_int<2>(8));
  conforms(block_int<5>(0));
  conforms(block_int<2>(32, options::clip));
  conforms(block_int<4>(256, options::clip));
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

TEST_CASE("each bucket with clip takes the scale with the least squared error of four candidates") {
  for (std::size_t const width : {8u, 32u, 128u, 256u}) {
    for (std::size_t const n : {3 * width, 2 * width + 5, width / 2 + 1}) {
      auto const x = widen(narrow<float>(normal_vector(n, n)));
      CHECK(decoded(block_int<2>(width, options::clip), x) == clipped_by_hand(x, width, 1));
      CHECK(decoded(block_int<3>(width, options::clip), x) == clipped_by_hand(x, width, 3));
    }
  }
}

TEST_CASE("clip divides the squared error of normal values by 2.4 for 2 bits, by 1.3 for 3 bits, by 1.0 for 4 bits") {
  auto const x = widen(narrow<float>(normal_vector(1 << 16, 3)));
  auto const gain = [&](auto const& plain, auto const& clipped) {
    return std::round(10 * relative_error(plain, x) / relative_error(clipped, x)) / 10;
  };
  CHECK(gain(block_int<2>(32), block_int<2>(32, options::clip)) == 2.4);
  CHECK(gain(block_int<3>(32), block_int<3>(32, options::clip)) == 1.3);
  CHECK(gain(block_int<4>(32), block_int<4>(32, options::clip)) == 1.0);
}

TEST_CASE("block_int with clip keeps zeros, and NaN spoils only its own bucket") {
  auto const codec = block_int<2>(8, options::clip);
  CHECK(decoded(codec, std::vector<double>(9)) == std::vector<double>(9));
  auto x = std::vector<double>(16, 1.0);
  x[3] = not_a_number;
  auto const y = decoded(codec, x);
  CHECK(std::isnan(y[0]));
  CHECK(y[8] == 1);
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
  CHECK(block_int<2>(32, options::clip).name() == "block_int<2>(32,clip)");
  CHECK(block_int<2>(128, options::clip).name() == "block_int<2>(128,clip)");
  for (auto const bucket : {0u, 24u, 512u}) CHECK_THROWS_AS(block_int<2>(bucket, options::clip), std::invalid_argument);
  CHECK_THROWS_WITH_AS(block_int<2>(24, options::clip),
                       "pith::block_int: with clip, bucket must be 8, 16, 32, 64, 128 or 256, got 24",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(block_int<8>(12), "pith::block_int: bucket must be 0 (whole tensor) or a multiple of 8, got 12",
                       std::invalid_argument);
}
