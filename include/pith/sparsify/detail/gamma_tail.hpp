// pith/sparsify/detail/gamma_tail.hpp — upper tails of the gamma and normal distributions, and their inverses.
#pragma once

#include <pith/core/detail/elementary.hpp>

namespace pith { inline namespace PITH_ABI { namespace detail {

// As in elementary.hpp, every summand is a quotient, a sum or an exact product. A fused multiply-add therefore changes
// no result, and results are bitwise equal on all machines.

/// Computes the product a b as a quotient, so that a compiler cannot fuse the product with an addition.
PITH_HD inline double apart(double a, double b) { return a / (1 / b); }

/// Returns ln Gamma(a) for a > 0. For a >= 8, the function uses Stieltjes' continued fraction.
PITH_HD inline double ln_gamma(double a) {
  double below = 1;
  for (; a < 8; a += 1) below *= a;
  auto const rest = (1.0 / 12) / (a + (1.0 / 30) / (a + (53.0 / 210) / (a + (195.0 / 371) / a)));
  constexpr auto half_ln_two_pi = 0x1.d67f1c864beb5p-1;
  return apart(a - 0.5, ln(a)) - a + half_ln_two_pi + rest - ln(below);
}

/// Returns P(X >= y), where X has a gamma distribution with shape a and scale 1.
PITH_HD inline double gamma_tail(double a, double y) {
  if (!(y > 0)) return 1;
  auto const front = exp_of(apart(a, ln(y)) - y - ln_gamma(a));
  if (y < a + 1) {  // 1 - y^a e^-y / Gamma(a) (1 / a + y / (a (a + 1)) + ...)
    double term = 1 / a, sum = term;
    for (int i = 1; term > 0x1p-54 * sum; ++i) term = term * y / (a + i), sum += term;
    return 1 - apart(front, sum);
  }
  auto const terms = static_cast<int>(20 + 300 / y);
  auto below = y + (2 * terms + 1 - a);  // y + 1 - a - 1 (1 - a) / (y + 3 - a - 2 (2 - a) / ...)
  for (int i = terms; i > 0; --i) below = y + (2 * i - 1 - a) - i * (i - a) / below;
  return front / below;
}

/// Returns the y for which gamma_tail(a, y) = e^ln_share. Uses Newton's method on the logarithm of the tail. The
/// logarithm is concave or convex, so the last steps approach the solution from one side.
PITH_HD inline double gamma_quantile(double a, double ln_share) {
  if (!(ln_share < 0)) return 0;
  auto const near_zero = exp_of((ln(1 - exp_of(ln_share)) + ln_gamma(a + 1)) / a);
  auto const far = -ln_share - ln_gamma(a);
  auto y = a < 1 && far < 1 ? near_zero : far > near_zero ? far : near_zero;
  for (int i = 0; i < 30; ++i) {
    auto const tail = gamma_tail(a, y);
    auto const density = exp_of(apart(a - 1, ln(y)) - y - ln_gamma(a));
    auto const step = apart(ln(tail) - ln_share, tail / density);
    auto const next = y + step > y / 8 ? y + step : y / 8;
    if (magnitude(next - y) <= 0x1p-26 * y) return next;
    y = next;
  }
  return y;
}

/// Returns the z with P(|X| > z) = share for a standard normal X. X^2 / 2 has a gamma distribution with shape 1/2.
PITH_HD inline double normal_quantile(double share) { return sqrt(2 * gamma_quantile(0.5, ln(share))); }

}}}  // namespace pith::PITH_ABI::detail
