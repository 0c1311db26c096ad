// tests/vector_quantize/hypersphere_quantizer_test.cpp — one random direction and a length a run, and the mean of many.
#include <pith/adaptor/damped.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/vector_quantize/hypersphere_quantizer.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "laws/laws.hpp"
#include "support/conform.hpp"
#include "support/executed.hpp"
#include "support/reversed.hpp"

using namespace support;
using pith::codebook;
using pith::hypersphere_quantizer;

TEST_CASE("hypersphere_quantizer takes any input of any size and type") {
  conforms(hypersphere_quantizer<4>(codebook::axes(8)));
  conforms(hypersphere_quantizer<6>(codebook::directions(5, 32, 1)));
}

TEST_CASE_TEMPLATE("the axes send one element of a run", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, hypersphere_quantizer<3>>(hypersphere_quantizer<3>(codebook::axes(4)), {6});
  auto counts = std::vector<int>(6);
  for (int step = 0; step < 4000; ++step) {
    auto const y = widen(t.roundtrip(of<In>({1, 0, -2, 1, 0, -8})));
    CHECK((y[4] == 0 && y[5] == -8));
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK((y[i] == 0 || y[i] == (i == 2 ? -4 : 4)));
      counts[i] += y[i] != 0 ? 1 : 0;
      sum += std::abs(y[i]);
    }
    CHECK(sum == 4);
  }
  CHECK(counts[1] == 0);
  CHECK(std::abs(counts[2] - 2000) < 160);  // five standard deviations of 4,000 throws of a coin
  CHECK(std::abs(counts[0] - 1000) < 140);
}

// A rounding of the duals and the words, and half a step of the 32 random bits: some 2^-23 of a run.
TEST_CASE("it is unbiased and its omega holds") {
  auto const lawful = [](auto const& codec) {
    for (std::uint64_t const n : {1u, 7u, 64u, 129u}) {
      auto const found = laws::check(codec, {n}, {.draws = 60000, .search = n < 50 ? 100u : 0u, .bias = 0x1p-20});
      INFO(found.text());
      CHECK(found.holds());
    }
  };
  lawful(hypersphere_quantizer<4>(codebook::axes(8)));
  lawful(hypersphere_quantizer<6>(codebook::directions(8, 32, 1)));
  lawful(hypersphere_quantizer<8>(codebook::directions(16, 128, 2)));
  lawful(hypersphere_quantizer<5>(codebook(2, codebook::directions(2, 16, 3).words())));
}

TEST_CASE("an omega of evenly spread words is met, and many words err by less than the axes") {
  CHECK(hypersphere_quantizer<4>(codebook::axes(8)).omega({8}) == doctest::Approx(7));
  auto const equal = std::vector<double>(8, 0.5);
  auto const variance = [&](auto const& codec) {
    auto t = trial<float, std::remove_cvref_t<decltype(codec)>>(codec, {8});
    double sum = 0;
    for (int step = 0; step < 2000; ++step) sum += square(minus(widen(t.roundtrip(narrow<float>(equal))), equal));
    return sum / 2000 / square(equal);
  };
  CHECK(variance(hypersphere_quantizer<4>(codebook::axes(8))) == doctest::Approx(7));
  auto const many = variance(hypersphere_quantizer<9>(codebook::directions(8, 256, 4)));
  CHECK(many > 2 * 8 / 3.1416 - 1);  // which infinitely many, evenly spread, would have
  CHECK(many < 5.5);
}

TEST_CASE("an infinite element makes its run NaN or zero and leaves the next run unchanged") {
  auto const y = decoded(hypersphere_quantizer<3>(codebook::axes(4)), {1, infinity, 2, 3, 0, 5, 0, 0});
  for (std::size_t i = 0; i < 4; ++i) CHECK((std::isnan(y[i]) || y[i] == 0));
  CHECK(std::any_of(y.begin(), y.begin() + 4, [](double v) { return std::isnan(v); }));
  CHECK(y[5] == 5);
}

TEST_CASE("blocks in another order and on threads give the same bytes") {
  auto pool = pith::thread_pool(3);
  auto const codec = hypersphere_quantizer<6>(codebook::directions(8, 32, 5));
  for (std::uint64_t const n : {0u, 5u, 100'000u}) {
    auto const expected = executed<float>(pith::seq, codec, {n});
    CHECK(executed<float>(reversed(), codec, {n}) == expected);
    CHECK(executed<float>(pith::par(pool), codec, {n}) == expected);
  }
}

TEST_CASE("damped it can be fed back") {
  auto const codec = pith::error_feedback(pith::damped(hypersphere_quantizer<4>(codebook::axes(8))));
  auto t = trial<float, std::remove_cvref_t<decltype(codec)>>(codec, {64});
  auto const g = normal_vector(64, 6);
  auto sum = std::vector<double>(64);
  for (int step = 0; step < 4000; ++step) {
    auto const sent = widen(t.roundtrip(narrow<float>(g)));
    for (std::size_t i = 0; i < 64; ++i) sum[i] += sent[i] / 4000;
  }
  CHECK(square(minus(sum, g)) < 0.01 * square(g));
}

TEST_CASE("name() states the bits and the dimension, and invalid codebooks are refused") {
  CHECK(hypersphere_quantizer<3>(codebook::axes(4)).name().rfind("hypersphere_quantizer<3>(4,", 0) == 0);
  CHECK_THROWS_WITH_AS(hypersphere_quantizer<4>(codebook::axes(4)),
                       "pith::hypersphere_quantizer<4>: the codebook must have 8 words, got 4", std::invalid_argument);
  CHECK_THROWS_WITH_AS(hypersphere_quantizer<2>(codebook(2, {1, 0, -1, 0})),
                       "pith::hypersphere_quantizer: words must span all 2 dimensions", std::invalid_argument);
  CHECK_THROWS_WITH_AS(hypersphere_quantizer<2>(codebook(2, {1, 0, 0, 2})),
                       "pith::hypersphere_quantizer: words must have length 1, got 2", std::invalid_argument);
}
