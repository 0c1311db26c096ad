// tests/sparsify/gamma_tail_test.cpp — tails of gamma and normal numbers against those that are known in closed form.
#include <pith/sparsify/detail/gamma_tail.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

using pith::detail::gamma_quantile;
using pith::detail::gamma_tail;
using pith::detail::ln_gamma;
using pith::detail::normal_quantile;

namespace {

/// e^-y (1 + y + y^2 / 2 + ... + y^(a - 1) / (a - 1)!).
double tail_of_whole(int a, double y) {
  double term = 1, sum = 1;
  for (int i = 1; i < a; ++i) sum += term *= y / i;
  return std::exp(-y) * sum;
}

}  // namespace

TEST_CASE("ln_gamma is lgamma") {
  for (double a = 1e-6; a < 1e6; a *= 1.37) {
    CAPTURE(a);
    CHECK(std::abs(ln_gamma(a) - std::lgamma(a)) <= 1e-11 * std::max(1.0, std::abs(std::lgamma(a))));
  }
}

TEST_CASE("the tail of shape 1/2 is that of a normal number, those of whole shapes are sums") {
  for (double y = 1e-6; y < 700; y *= 1.21) {
    CAPTURE(y);
    CHECK(std::abs(gamma_tail(0.5, y) / std::erfc(std::sqrt(y)) - 1) < 1e-9);
    for (int const a : {1, 2, 5, 30}) {
      CAPTURE(a);
      CHECK(std::abs(gamma_tail(a, y) / tail_of_whole(a, y) - 1) < 1e-9);
    }
  }
}

TEST_CASE("the quantile is where the tail is the share") {
  for (double const a : {0.02, 0.1, 0.5, 0.71, 1.0, 1.5, 4.0, 30.0, 64.0}) {
    for (double const share : {0.999, 0.7, 0.25, 0.1, 0.01, 1e-3, 1e-6, 1e-9}) {
      CAPTURE(a);
      CAPTURE(share);
      CHECK(std::abs(gamma_tail(a, gamma_quantile(a, std::log(share))) / share - 1) < 1e-6);
    }
  }
  CHECK(gamma_quantile(0.7, 0) == 0);
}

TEST_CASE("normal quantiles are those of the tables") {
  CHECK(std::abs(normal_quantile(0.05) - 1.959963985) < 1e-8);
  CHECK(std::abs(normal_quantile(0.01) - 2.575829304) < 1e-8);
  CHECK(std::abs(normal_quantile(0.001) - 3.290526731) < 1e-8);
  CHECK(std::abs(normal_quantile(0.5) - 0.674489750) < 1e-8);
  CHECK(normal_quantile(1) == 0);
}
