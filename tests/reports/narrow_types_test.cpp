// tests/reports/narrow_types_test.cpp — exchanges of half and bfloat16 give what float gives, rounded once.
// pytorch/pytorch#28736 and Megatron-LM#6199: sums of 16-bit gradients overflow, or lose small values.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/ring.hpp>
#include <pith/exchange/two_shot.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/cast.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace {

/// The number of ranks, and the largest magnitude of a gradient.
struct narrow_case {
  unsigned ranks;
  float size;
};

/// From the smallest gradients of mixed precision to those that a loss scale brings near the largest half.
narrow_case const narrow_cases[] = {{1, 1},      {2, 30000}, {3, 65504}, {4, 1e-6f},
                                    {7, 50000},  {64, 1e-5f}, {64, 1e-6f}, {64, 65504}};

/// The largest rounding error of T at x: half the distance of neighbouring values.
template <class T>
double rounding_at(double x) {
  auto const [digits, least] = std::same_as<T, pith::half> ? std::pair(11, -14) : std::pair(8, -126);
  auto exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, least) - digits);
}

/// Gradients whose values T holds, so that the exchanges in T and in float begin with equal values. One in eight is of
/// full size.
template <class T, class In>
std::vector<In> narrow_gradient(unsigned rank, std::size_t n, float size) {
  auto g = std::vector<In>(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const part = i % 8 == 0 ? 1.f : static_cast<float>((i * 37 + rank * 11 + i * i) % 64) / 64;
    g[i] = pith::element_cast<In>(pith::element_cast<float>(T(i % 3 == 0 ? -size * part : size * part)));
  }
  return g;
}

/// The means of rank 0 after one step of In.
template <class T, class In, class C>
std::vector<double> mean_in(C const& codec, narrow_case const& at, pith::exchange_options const& options = {},
                            std::vector<double> const& weights = {}) {
  auto means = std::vector<double>();
  pith::run_ranks(at.ranks, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<In>(pith::seq, comm, {{"a", {300}}, {"b", {24, 24}}}, codec, options);
    auto g = narrow_gradient<T, In>(comm.rank(), exchange.size(), at.size);
    exchange.all_reduce_mean(g, weights.empty() ? 1 : weights[comm.rank()]);
    if (comm.rank() != 0) return;
    for (auto const x : g) means.push_back(pith::element_cast<double>(x));
  });
  return means;
}

/// Compares a step in T with a step in float. `roundings` counts the roundings to T that the codec needs.
template <class T, class C>
void as_float(C const& codec, int roundings) {
  for (auto const& at : narrow_cases) {
    auto const got = mean_in<T, T>(codec, at), right = mean_in<T, float>(codec, at);
    auto worst = 0.0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      auto const bound = std::max(rounding_at<T>(right[i]), rounding_at<T>(got[i]));
      worst = std::max(worst, std::isfinite(got[i]) ? std::abs(got[i] - right[i]) / bound : HUGE_VAL);
    }
    CAPTURE(codec.name());
    CAPTURE(at.ranks);
    CAPTURE(at.size);
    CHECK(worst <= roundings);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("a mean in 16 bits is the mean in float rounded", T, pith::half, pith::bfloat16) {
  as_float<T>(pith::identity(), 1);
  as_float<T>(pith::qsgd<8>(), 1);
  as_float<T>(pith::scaled_sign(), 1);
  as_float<T>(pith::top_k(0.25), 1);
  as_float<T>(pith::error_feedback(pith::top_k(0.25)), 1);
  as_float<T>(pith::error_feedback(pith::power_sgd(2)), 1);
}
