// pith/core/detail/elementary.hpp — logarithm and exponential, bitwise equal on every executor and compiler.
#pragma once

#include <pith/core/element.hpp>

#include <cmath>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

// A compiler may fuse a product and an addition (FMA). This changes the rounding if the product is not exact. A
// compiler cannot fuse a quotient and an addition. So the terms of additions in `ln` and `exp_of` are sums, exact
// products and quotients. `ln` and `exp_of` evaluate continued fractions.

/// ln 2 as the sum of a 32-bit part and a 41-bit part. The product of either part and an exponent is exact.
inline constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793p-33;

/// Returns 2^k for a k in the exponent range of normal doubles.
PITH_HD inline double power_of_two(std::int32_t k) {
  return bits_as<double>(static_cast<std::uint64_t>(1023 + k) << 52);
}

/// Returns ln((1 + s) / (1 - s)) for |s| <= 0.172, computed as 2 s / (1 - s^2 / (3 - 4 s^2 / (5 - 9 s^2 / ...))).
PITH_HD inline double ln_ratio(double s) {
  auto const square = s * s;
  double below = 15;
  for (int i = 6; i >= 0; --i) below = (2 * i + 1) - (i + 1) * (i + 1) * square / below;
  return 2 * s / below;
}

/// The natural logarithm, with a relative error below 2^-51. ln(0) is minus infinity. The logarithm of a negative
/// number is NaN.
PITH_HD inline double ln(double x) {
  auto const is_tiny = x < 0x1p-1022;
  auto const bits = bits_as<std::uint64_t>(is_tiny ? x * 0x1p54 : x);
  // x = 2^exponent fraction, with fraction in [sqrt(1/2), sqrt(2)).
  auto const exponent = static_cast<std::int64_t>(bits - 0x3fe6a09e667f3bcdu) >> 52;
  auto const fraction = bits_as<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
  auto const k = static_cast<double>(static_cast<std::int32_t>(exponent) - (is_tiny ? 54 : 0));
  auto const of_number = k * ln2_high + (ln_ratio((fraction - 1) / (fraction + 1)) + k * ln2_low);
  constexpr double infinite = INFINITY;
  auto const of_rest = x == 0 ? -infinite : x > 0 ? infinite : double{NAN};
  return x > 0 && x < infinite ? of_number : of_rest;
}

/// Returns e^x with a relative error below 2^-51. For results below 2^-1022, the absolute error is below 2^-1073.
PITH_HD inline double exp_of(double x) {
  if (x != x) return x;
  auto const inside = x < -746 ? -746 : x > 710 ? 710 : x;
  auto const k = static_cast<std::int32_t>(inside / (ln2_high + ln2_low) + (inside < 0 ? -0.5 : 0.5));
  auto const r = (inside - k * ln2_high) - k * ln2_low;
  auto const square = r * r;
  double below = 22;
  for (int i = 4; i > 0; --i) below = (4 * i + 2) + square / below;
  auto const power = 1 + 2 * r / (2 - r + square / below);
  return power * power_of_two(k / 2) * power_of_two(k - k / 2);
}

}}}  // namespace pith::PITH_ABI::detail
