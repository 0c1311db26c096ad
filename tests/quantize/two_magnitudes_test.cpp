// tests/quantize/two_magnitudes_test.cpp — signs and two magnitudes per bucket.
#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/two_magnitudes.hpp>
#include <pith/sparsify/chunk_top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/conform.hpp"
#include "support/roundtrip.hpp"

using namespace support;
using pith::two_magnitudes;

namespace {

double squared_error(std::vector<double> const& y, std::vector<double> const& x) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (y[i] - x[i]) * (y[i] - x[i]);
  return sum;
}

/// The squared error relative to the squared norm of the 64 largest of each 4,096 values.
template <class C>
double error_of_kept(C const& codec, std::vector<double> const& x) {
  auto const kept = decoded(pith::chunk_top_k(64), x);
  auto const coded = decoded(pith::chunk_top_k(64) | codec, x);
  return squared_error(coded, kept) / squared_error(kept, std::vector<double>(x.size()));
}

}  // namespace

TEST_CASE("two_magnitudes takes inputs of all sizes and types") {
  conforms(two_magnitudes());
  conforms(two_magnitudes(8), 8);
  conforms(two_magnitudes(8192), 8192);
  conforms(pith::error_feedback(pith::chunk_top_k(8, 64) | two_magnitudes()));
}

TEST_CASE("eight values by hand") {
  // The mean magnitude is 4.75, so 8 and 9 are large. The means are 8.5 and 3.5.
  auto t = trial<float, two_magnitudes>(two_magnitudes(8), {8});
  auto const payload = t.compress(of({3, -3.2, 4, -8, 3.1, 9, -3.3, 4.4}));
  // Symbols 00 10 00 11 00 01 10 00, from bit 0 on, and the magnitudes 0x4060 and 0x4108.
  auto const expected = std::vector<unsigned>{0b11'00'10'00, 0b00'10'01'00, 0, 0, 0, 0, 0, 0, 0x60, 0x40, 0x08, 0x41};
  REQUIRE(payload.size() == expected.size());
  for (std::size_t i = 0; i < payload.size(); ++i) CHECK(static_cast<unsigned>(payload[i]) == expected[i]);
  CHECK(t.decompress(payload) == of({3.5, -3.5, 3.5, -8.5, 3.5, 8.5, -3.5, 3.5}));
}

TEST_CASE("a chunk of 4,096 elements takes 84 bytes") {
  auto const codec = pith::chunk_top_k(64, 4096) | two_magnitudes();
  CHECK(pith::payload_bytes<float>(codec, {4096}) == 16 + 64 + 4);
  CHECK(pith::payload_bytes<float>(codec, {1 << 20}) == 256 * 84);
}

TEST_CASE("equal magnitudes come back, and zeros") {
  CHECK(decoded(two_magnitudes(8), {2, -2, 2, 2, -2, 2, 2, -2, 0, 0, 0}) ==
        std::vector<double>{2, -2, 2, 2, -2, 2, 2, -2, 0, 0, 0});
  CHECK(decoded(two_magnitudes(8), {0, 0, -5, 0, 0, 0, 0, 0}) == std::vector<double>{0, 0, -5, 0, 0, 0, 0, 0});
}

TEST_CASE("the error is at most that of one magnitude, which Lloyd's rounds begin with") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto const x = normal_vector(64, seed);
    auto const one = squared_error(decoded(pith::scaled_sign(64), x), x);
    CAPTURE(seed);
    CHECK(squared_error(decoded(two_magnitudes(), x), x) <= one * (1 + 0x1p-16));  // magnitudes have 8 digits
  }
}

TEST_CASE("the errors of normally distributed values are the published ones") {
  auto const x = normal_vector(65536, 77);
  CHECK(error_of_kept(two_magnitudes(), x) == doctest::Approx(0.0037).epsilon(0.05));
  CHECK(error_of_kept(pith::scaled_sign(64), x) == doctest::Approx(0.0132).epsilon(0.05));
}

TEST_CASE("a bucket with NaN or infinity decodes to NaN, and the next bucket does not") {
  for (auto const odd : {not_a_number, -not_a_number, infinity, -infinity}) {
    auto x = std::vector<double>(16, 1.5);
    x[3] = odd;
    auto t = trial<double, two_magnitudes>(two_magnitudes(8), {16});
    auto const payload = t.compress(x);
    auto const expected = std::vector<unsigned>{payload.size() > 0 && odd == -infinity ? 0b10'00'00'00u : 0u, 0, 0, 0};
    for (std::size_t i = 0; i < 4; ++i) CHECK((static_cast<unsigned>(payload[i]) & 0b10'10'10'10u) == expected[i]);
    for (std::size_t i = 8; i < 12; i += 2) {
      CHECK(payload[i] == std::byte{0xc0});
      CHECK(payload[i + 1] == std::byte{0x7f});
    }
    auto const y = t.decompress(payload);
    for (std::size_t i = 0; i < 8; ++i) CHECK(std::isnan(y[i]));
    for (std::size_t i = 8; i < 16; ++i) CHECK(y[i] == 1.5);
  }
}

TEST_CASE("the largest and smallest floats keep their magnitude up to the digits of bfloat16") {
  for (auto const v : {3.4028234e38, 1e38, 1e-37, 1.5e-38}) {
    auto const y = decoded(two_magnitudes(8), {v, -v, v / 8, v / 8, v / 8, v / 8, v / 8, v / 8});
    CAPTURE(v);
    CHECK(std::abs(y[0] / v - 1) <= 0x1p-8);
    CHECK(std::abs(y[1] / v + 1) <= 0x1p-8);
    CHECK(std::abs(y[2] - v / 8) <= std::max(0x1p-8 * v / 8, 0x1p-134));  // half a step of subnormal bfloat16s
  }
}

TEST_CASE("doubles above the range of bfloat16 become its largest number") {
  auto const largest = static_cast<double>(pith::largest_finite<pith::bfloat16>);
  for (auto const v : {1e300, 1e39}) {
    auto t = trial<double, two_magnitudes>(two_magnitudes(8), {8});
    auto const y = t.roundtrip({v, -v, 1, 1, 1, 1, 1, 1});
    CHECK(y == std::vector<double>{largest, -largest, 1, 1, 1, 1, 1, 1});
  }
}

TEST_CASE("a second encoding changes nothing") {
  auto const y = decoded(two_magnitudes(16), normal_vector(1000, 5));
  CHECK(decoded(two_magnitudes(16), y) == y);
}

TEST_CASE("bucket sizes that are no multiple of 8 are refused") {
  CHECK_THROWS_WITH_AS(two_magnitudes(0), "pith::two_magnitudes: bucket must be a multiple of 8 in [8, 8192], got 0",
                       std::invalid_argument);
  CHECK_THROWS_AS(two_magnitudes(12), std::invalid_argument);
  CHECK_THROWS_AS(two_magnitudes(8200), std::invalid_argument);
  CHECK(two_magnitudes().name() == "two_magnitudes");
  CHECK(two_magnitudes(32).name() == "two_magnitudes(32)");
}
