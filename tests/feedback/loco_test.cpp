// tests/feedback/loco_test.cpp — a residual that is a moving average of the compression error.
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/loco.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/conform.hpp"
#include "support/group.hpp"
#include "support/roundtrip.hpp"

using namespace support;
using pith::error_feedback;
using pith::loco;

namespace {

template <class C>
using fed = decltype(error_feedback(std::declval<C>(), loco()));

}  // namespace

TEST_CASE("loco takes inputs of all sizes and types") {
  conforms(error_feedback(pith::block_int<4>(), loco()));
  conforms(error_feedback(pith::scaled_sign(), loco(0.5, 2)));
}

TEST_CASE("the codec encodes the gradient plus a part of the errors, which become 0 after a period") {
  constexpr std::size_t n = 300;
  auto t = trial<float, fed<pith::scaled_sign>>(error_feedback(pith::scaled_sign(), loco(0.75, 4)), {n});
  auto plain = trial<float, pith::scaled_sign>(pith::scaled_sign(), {n});
  auto e = std::vector<float>(n);
  for (std::uint64_t step = 1; step <= 9; ++step) {
    auto const g = narrow<float>(normal_vector(n, step));
    auto p = std::vector<float>(n);
    for (std::size_t i = 0; i < n; ++i) p[i] = 0.25f * e[i] + g[i];  // a product by 1/4 is exact
    auto const sent = plain.roundtrip(p);
    CAPTURE(step);
    CHECK(same_bytes(t.roundtrip(g), sent));
    for (std::size_t i = 0; i < n; ++i) {
      float const kept = 0.75f * e[i];
      e[i] = step % 4 == 0 ? 0 : kept + (p[i] - sent[i]);
    }
  }
}

TEST_CASE("(1 - beta) e is the moving average of the errors") {
  auto t = trial<double, fed<pith::block_int<4>>>(error_feedback(pith::block_int<4>(8), loco(0.8, 0)), {8});
  auto plain = trial<double, pith::block_int<4>>(pith::block_int<4>(8), {8});
  auto average = std::vector<double>(8);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    auto const g = normal_vector(8, step);
    auto h = g;
    for (std::size_t i = 0; i < 8; ++i) h[i] += average[i];
    auto const sent = plain.roundtrip(h);
    auto const y = t.roundtrip(g);
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(y[i] == doctest::Approx(sent[i]).epsilon(0x1p-40));
      average[i] = 0.8 * average[i] + 0.2 * (h[i] - sent[i]);
    }
  }
}

TEST_CASE_TEMPLATE("the means plus the mean residual equal the sum of the gradients, also of 16-bit elements", In,
                   float, pith::half, pith::bfloat16) {
  constexpr std::size_t n = 64;
  constexpr unsigned ranks = 3;
  auto all = group<In, fed<pith::block_int<4>>>(error_feedback(pith::block_int<4>(), loco(0.8, 0)), {n}, ranks);
  auto balance = std::vector<double>(n);
  double most = 0, largest_gradient = 0;
  for (std::uint64_t step = 1; step <= 60; ++step) {
    auto gradients = std::vector<std::vector<In>>();
    for (unsigned rank = 0; rank < ranks; ++rank) gradients.push_back(narrow<In>(normal_vector(n, 100 * step + rank)));
    auto const mean = all.all_reduce(gradients)[0];
    for (std::size_t i = 0; i < n; ++i) {
      for (auto const& g : gradients) {
        balance[i] += pith::element_cast<double>(g[i]) / ranks;
        largest_gradient = std::max(largest_gradient, std::abs(pith::element_cast<double>(g[i])));
      }
      balance[i] -= pith::element_cast<double>(mean[i]);
      most = std::max(most, std::abs(balance[i]));
    }
  }
  // A step adds at most half a scale, and the rounding of a mean to bfloat16, to 0.8 e: e <= 0.8 e + half + mean / 2^8. All
  // gradients are below 5, so |p| <= 5 + 0.2 e, and half a scale is at most |p| (1 + 2^-7) / 14.
  constexpr double largest = 5, half = (1 + 0x1p-7) / 14;
  CHECK(largest_gradient < largest);
  CHECK(most <= largest * (half + 0x1p-8) / (0.2 - 0.2 * (half + 0x1p-8)));
}

TEST_CASE("the mean of many steps at a constant gradient is the gradient up to e / steps") {
  auto const codec = error_feedback(pith::block_int<4>(8), loco(0.8, 0));
  auto t = trial<float, fed<pith::block_int<4>>>(codec, {8});
  auto const g = of({1, -0.4, 0.3, 0.05, 0.9, -0.5, 0.2, 0.1});
  constexpr int steps = 400;
  auto sum = std::vector<double>(8);
  for (int step = 0; step < steps; ++step) {
    auto const y = t.roundtrip(g);
    for (std::size_t i = 0; i < 8; ++i) sum[i] += static_cast<double>(y[i]);
  }
  auto const once = trial<float, pith::block_int<4>>(pith::block_int<4>(8), {8}).roundtrip(g);
  constexpr double half = (1 + 0x1p-7) / 14, most = half / (0.2 - 0.2 * half);  // e <= 0.8 e + (1 + 0.2 e) half
  auto is_worse_once = false;
  for (std::size_t i = 0; i < 8; ++i) {
    auto const value = static_cast<double>(g[i]);
    CHECK(std::abs(sum[i] / steps - value) <= most / steps + 0x1p-20);  // and roundings of e to float
    is_worse_once = is_worse_once || std::abs(static_cast<double>(once[i]) - value) > most / steps + 0x1p-20;
  }
  CHECK(is_worse_once);
}

TEST_CASE("a residual stays where the gradient is not finite") {
  auto const codec = error_feedback(pith::block_int<4>(8), loco(0.5, 0));
  auto t = trial<float, fed<pith::block_int<4>>>(codec, {8}),
       of_two = trial<float, fed<pith::block_int<4>>>(codec, {8});
  auto x = std::vector<float>(8, 0.3f);
  x[0] = 1;
  CHECK(t.roundtrip(x) == of_two.roundtrip(x));
  auto odd = x;
  odd[2] = std::numeric_limits<float>::infinity();  // the whole bucket decodes to NaN
  t.roundtrip(odd);
  auto const y = of_two.roundtrip(x);
  CHECK(y != std::vector<float>(8, y[1]));
  CHECK(t.roundtrip(x) == y);
}

TEST_CASE("the residual of finite gradients stays finite") {
  constexpr std::size_t n = 4096;
  auto t = trial<float, fed<pith::scaled_sign>>(error_feedback(pith::scaled_sign(), loco(0.8, 0)), {n});
  auto x = std::vector<float>(n);
  x[7] = 2.5e38f;
  for (int step = 0; step < 4; ++step) {
    for (auto const v : t.roundtrip(x)) CHECK(std::isfinite(v));
  }
}

TEST_CASE("loco refuses a beta outside [0, 1)") {
  CHECK_THROWS_WITH_AS(loco(1), "pith::loco: beta must be in [0, 1), got 1", std::invalid_argument);
  CHECK_THROWS_AS(loco(-0.1), std::invalid_argument);
  CHECK_THROWS_AS(loco(std::nan("")), std::invalid_argument);
  CHECK_THROWS_AS(loco(0.99999999), std::invalid_argument);  // 1 as a float
  CHECK(loco().name() == "loco(0.8,1024)");
  CHECK(loco(0, 7).name() == "loco(0,7)");
}
