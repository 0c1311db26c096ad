// tests/quantize/scaled_sign_test.cpp — signs and mean magnitudes.
#include <pith/core/detail/summation.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/conform.hpp"

using namespace support;
using pith::scaled_sign;

TEST_CASE("scaled_sign takes any input of any size and type") {
  conforms(scaled_sign());
  conforms(scaled_sign(128));
  conforms(scaled_sign(8), 8);
}

TEST_CASE_TEMPLATE("five numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, scaled_sign>(scaled_sign(), {5});
  auto const payload = t.compress(of<In>({1, -2, 3, 0, -1.5}));
  CHECK(payload.size() == 8 + sizeof(pith::accum<In>));
  CHECK(payload[0] == std::byte{0b10010});
  CHECK(widen(t.decompress(payload)) == std::vector<double>{1.5, -1.5, 1.5, 1.5, -1.5});
}

TEST_CASE("each bucket has its mean magnitude") {
  auto x = std::vector<double>{1, 1, 1, 1, -3, -3, -3, -3, -7};
  CHECK(decoded(scaled_sign(8), x) == std::vector<double>{2, 2, 2, 2, -2, -2, -2, -2, -7});
  CHECK(pith::payload_bytes<float>(scaled_sign(8), {9}) == 8 + 2 * 4);
  CHECK(pith::payload_bytes<float>(scaled_sign(), {9}) == 8 + 4);
}

TEST_CASE("equal magnitudes are exact") {
  auto x = std::vector<double>(1000, 0.1f);
  for (std::size_t i = 0; i < 1000; i += 3) x[i] = -x[i];
  CHECK(decoded(scaled_sign(), x) == x);
  CHECK(decoded(scaled_sign(128), x) == x);
}

TEST_CASE("zero of either sign counts as positive") {
  CHECK(decoded(scaled_sign(), {0.0, -0.0, 3, -3}) == std::vector<double>{1.5, 1.5, 1.5, -1.5});
}

TEST_CASE("the scale of a whole tensor is summed in the tree") {
  auto const x = narrow<float>(normal_vector(20000, 41));
  auto const magnitude = [&](std::uint64_t i) { return std::abs(static_cast<double>(x[i])); };
  auto memory = std::vector<std::byte>(pith::detail::reduce_scratch_bytes<double>(20000) + 128);
  auto ws = pith::workspace(pith::span(memory));
  double sum = 0;
  pith::detail::reduce_into(pith::seq, &sum, 20000, magnitude, pith::detail::plus{}, 0.0, ws);
  CHECK(std::abs(decoded(scaled_sign(), widen(x))[0]) == static_cast<double>(static_cast<float>(sum / 20000)));
}

TEST_CASE("a bucket with NaN or infinity decodes to NaN and the others do not") {
  for (double const bad : {not_a_number, -not_a_number, infinity, -infinity}) {
    auto x = normal_vector(24, 42);
    x[11] = bad;
    auto const y = decoded(scaled_sign(8), x);
    for (std::size_t i = 0; i < 24; ++i) CHECK(std::isnan(y[i]) == (8 <= i && i < 16));
    for (auto const v : decoded(scaled_sign(), x)) CHECK(std::isnan(v));
  }
}

TEST_CASE("subnormal numbers have a subnormal mean") {
  auto const least = 0x1p-149;
  CHECK(decoded(scaled_sign(), {4 * least, -8 * least}) == std::vector<double>{6 * least, -6 * least});
}

TEST_CASE("the squared error follows from the l1 and l2 norms, and a tensor with one nonzero element meets delta") {
  auto const x = normal_vector(1000, 43);
  double sum = 0;
  for (auto const v : x) sum += std::abs(v);
  auto const error = square(minus(decoded(scaled_sign(), x), x));
  // |x|^2 - |x|_1^2 / n, but for the scale's rounding of 2^-24, whose effect is of second order, and x's own.
  CHECK(std::abs(error - (square(x) - sum * sum / 1000)) <= 4 * 0x1p-24 * square(x));
  auto spike = std::vector<double>(16);
  spike[3] = 1;
  CHECK(square(minus(decoded(scaled_sign(), spike), spike)) == 1 - scaled_sign().delta({16}));
  CHECK(scaled_sign(8).delta({16}) == 1.0 / 8);
  CHECK(scaled_sign(8).delta({3}) == 1.0 / 3);
  CHECK(scaled_sign().delta({0}) == 1);
}

TEST_CASE("a bucket that is no multiple of 8 is refused") {
  CHECK_THROWS_WITH_AS(scaled_sign(12), "pith::scaled_sign: bucket must be 0 (whole tensor) or a multiple of 8, got 12",
                       std::invalid_argument);
  CHECK(scaled_sign().name() == "scaled_sign");
  CHECK(scaled_sign(64).name() == "scaled_sign(64)");
}
