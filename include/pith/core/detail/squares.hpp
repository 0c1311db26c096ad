// pith/core/detail/squares.hpp — sums of squares that neither overflow nor underflow.
#pragma once

#include <pith/core/element.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A sum of squares of doubles, in three parts. The squares of magnitudes in [2^-480, 2^480) are in `usual`. Smaller
/// numbers are multiplied by 2^700 before they are squared, and larger numbers by 2^-700. So none of 2^60 squares
/// overflows or underflows. A square that is NaN is in `usual`.
struct wide_squares {
  double usual = 0, small = 0, large = 0;

  PITH_HD friend constexpr wide_squares operator+(wide_squares const& a, wide_squares const& b) {
    return {a.usual + b.usual, a.small + b.small, a.large + b.large};
  }
  PITH_HD friend constexpr wide_squares operator/(wide_squares const& a, double count) {
    return {a.usual / count, a.small / count, a.large / count};
  }
};

/// The type of a sum of squares of elements of type A. The square of a float neither overflows nor underflows in double
/// precision.
template <class A>
using squares = std::conditional_t<std::same_as<A, double>, wide_squares, double>;

/// Returns x^2 as a term of a sum.
template <class A>
PITH_HD inline squares<A> squared(A x) {
  auto const v = static_cast<double>(x);
  if constexpr (std::same_as<A, double>) {
    auto const is_small = magnitude(v) < 0x1p-480, is_large = magnitude(v) >= 0x1p480;
    auto const near = is_small ? v * 0x1p700 : is_large ? v * 0x1p-700 : v;
    return {is_small || is_large ? 0 : near * near, is_small ? near * near : 0, is_large ? near * near : 0};
  } else {
    return v * v;
  }
}

/// Returns x[i]^2 as a term of a sum.
template <class In>
struct squared_element {
  In const* x;
  PITH_HD auto operator()(std::uint64_t i) const { return squared(element_cast<accum<In>>(x[i])); }
};

/// Returns the square root of a sum of squares, divided by `divisor`. So the result may be finite even if the root is
/// not.
PITH_HD inline double root(double sum, double divisor = 1) { return sqrt(sum) / divisor; }
PITH_HD inline double root(wide_squares const& sum, double divisor = 1) {
  if (sum.large > 0) return sqrt(sum.large + sum.usual * 0x1p-700 * 0x1p-700) / divisor * 0x1p700;
  if (!(sum.usual == 0)) return sqrt(sum.usual + sum.small * 0x1p-700 * 0x1p-700) / divisor;
  return sqrt(sum.small) * 0x1p-700 / divisor;
}

/// The sum of the parts. It is finite if all elements are.
PITH_HD inline double total(double sum) { return sum; }
PITH_HD inline double total(wide_squares const& sum) { return sum.usual + sum.small + sum.large; }

/// Merges two sums of squares.
struct plus_squares {
  template <class S>
  PITH_HD constexpr S operator()(S const& a, S const& b) const {
    return a + b;
  }
};

}}}  // namespace pith::PITH_ABI::detail
