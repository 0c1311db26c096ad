// tests/comparison/sketch_ml_test.cpp — buckets between quantiles, and their means.
#include <pith/codec/chain.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "laws/laws.hpp"
#include "support/conform.hpp"

using namespace support;
using pith::sketch_ml;

namespace {

/// Of n sorted values the one of rank r is in bucket floor(r q / (n - 1)), equal ones in that of the last of them.
std::vector<std::size_t> expected_buckets(std::vector<double> const& x, std::size_t q) {
  auto sorted = x;
  std::sort(sorted.begin(), sorted.end());
  auto buckets = std::vector<std::size_t>();
  for (auto const v : x) {
    auto const rank = static_cast<std::size_t>(std::upper_bound(sorted.begin(), sorted.end(), v) - sorted.begin() - 1);
    buckets.push_back(x.size() < 2 ? q - 1 : std::min(q - 1, rank * q / (x.size() - 1)));
  }
  return buckets;
}

std::vector<double> expected_means(std::vector<double> const& x, std::size_t q) {
  auto const buckets = expected_buckets(x, q);
  auto sums = std::vector<double>(q), counts = sums;
  for (std::size_t i = 0; i < x.size(); ++i) sums[buckets[i]] += x[i], ++counts[buckets[i]];
  auto y = x;
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(sums[buckets[i]] / counts[buckets[i]]);
  return y;
}

}  // namespace

TEST_CASE("sketch_ml takes any input of any size") {
  for (std::uint64_t const n : {0u, 1u, 2u, 7u, 8u, 9u, 64u, 65u, 1000u}) {
    conforms_at<float>(sketch_ml<6>(), {n});
    conforms_at<float>(sketch_ml<3>(50), {n});
  }
}

TEST_CASE("sketch_ml is the projection that it claims to be") {
  for (std::uint64_t const n : {1u, 7u, 129u, 1000u}) {
    for (auto const& found : {laws::check(sketch_ml<4>(), {n}), laws::check(sketch_ml<4>(60), {n})}) {
      INFO(found.text());
      CHECK(found.holds());
    }
  }
}

TEST_CASE_TEMPLATE("buckets lie between the exact quantiles", C, sketch_ml<1>, sketch_ml<6>, sketch_ml<8>) {
  for (std::size_t const n : {1u, 2u, 63u, 64u, 65u, 1000u, 20'001u}) {
    CAPTURE(n);
    auto x = widen(narrow<float>(normal_vector(n, n)));
    CHECK(decoded(C(), x) == expected_means(x, C::buckets));
    for (auto& v : x) v = std::round(4 * v) + 0.5;  // ties
    CHECK(decoded(C(), x) == expected_means(x, C::buckets));
  }
}

TEST_CASE("eight numbers by hand") {
  auto const x = std::vector<double>{1, 9, 2, 5, 3, 7, 4, 8};
  CHECK(decoded(sketch_ml<1>(), x) == std::vector<double>{2.5, 7.25, 2.5, 7.25, 2.5, 7.25, 2.5, 7.25});
  auto t = trial<float, sketch_ml<1>>(sketch_ml<1>(), {8});
  auto const payload = t.compress(narrow<float>(x));
  CHECK(payload.size() == 8 + 2 * 4);
  CHECK(payload[0] == std::byte{0b10101010});
}

TEST_CASE("equal values are exact and zeros stay zeros") {
  CHECK(decoded(sketch_ml<6>(), std::vector<double>(257, 0.1f)) == std::vector<double>(257, 0.1f));
  CHECK(decoded(sketch_ml<6>(), std::vector<double>(257)) == std::vector<double>(257));
  CHECK(decoded(sketch_ml<6>(), {-3}) == std::vector<double>{-3});
}

TEST_CASE("NaN and infinity take their bucket along and no other") {
  for (double const bad : {not_a_number, infinity, -infinity}) {
    auto x = widen(narrow<float>(normal_vector(640, 5)));
    x[77] = bad;
    auto const y = decoded(sketch_ml<6>(), x);
    CHECK(std::isnan(y[77]));
    CHECK(std::count_if(y.begin(), y.end(), [](double v) { return std::isnan(v); }) <= 11);
  }
}

TEST_CASE("quantiles that are drawn are off by no more than is said") {
  std::size_t const n = 100'000;
  std::uint64_t const sample = 10'000;
  auto const x = widen(narrow<float>(normal_vector(n, 6)));
  auto t = trial<float, sketch_ml<4>>(sketch_ml<4>(sample), {n});
  auto const y = widen(t.roundtrip(narrow<float>(x)));
  auto sizes = std::map<double, double>();
  for (auto const v : y) ++sizes[v];
  REQUIRE(sizes.size() == 16);
  // 2 exp(-2 m e^2) = 1e-9, and one place of the sample for where its quantile lies.
  auto const e = std::sqrt(std::log(2e9) / (2 * static_cast<double>(sample))) + 1.0 / static_cast<double>(sample);
  double below = 0;
  int b = 0;
  for (auto const& [mean, count] : sizes) {
    CHECK(std::abs(below / static_cast<double>(n) - b / 16.0) <= e);
    below += count, ++b;
  }
  CHECK(t.roundtrip(narrow<float>(x)) != narrow<float>(y));  // another step draws others
}

// It is why there is no delta: the reference has the same buckets.
TEST_CASE("sketch_ml decodes a large element to the mean of a tied majority, but keeps its value after top_k") {
  auto x = std::vector<double>(640);
  x[5] = 640;
  CHECK(decoded(sketch_ml<6>(), x) == std::vector<double>(640, 1));
  CHECK(decoded(pith::top_k(0.01) | sketch_ml<6>(), {640}, x)[5] == 640);
}

TEST_CASE("the residual of error_feedback(sketch_ml) can stay in one bucket of mean 0 and is then never sent") {
  using codec = pith::error_feedback<sketch_ml<2>>;
  auto t = trial<float, codec>(codec(sketch_ml<2>(), pith::unverified), {8});
  CHECK(widen(t.roundtrip(of({0, 0, 0, 0, 0, 0, 0, 8}))) == std::vector<double>(8, 1));
  // The residual, seven times -1 and 7, stays one bucket of mean 0.
  for (int step = 0; step < 3; ++step) CHECK(t.roundtrip(std::vector<float>(8)) == std::vector<float>(8));
}

TEST_CASE("the name of sketch_ml states its parameters, and a sample of 0 is refused") {
  CHECK(sketch_ml<6>().name() == "sketch_ml<6>");
  CHECK(sketch_ml<6>(4096).name() == "sketch_ml<6>(4096)");
  CHECK_THROWS_WITH_AS(sketch_ml<6>(0), "pith::sketch_ml<6>: sample must be at least 1, got 0", std::invalid_argument);
}
