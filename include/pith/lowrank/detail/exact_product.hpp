// pith/lowrank/detail/exact_product.hpp — sums of products that do not depend on fused multiply-add.
#pragma once

#include <pith/core/element.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Returns x rounded to 26 significant bits. The remainder, x minus the result, also has at most 26 significant bits.
/// If x is infinite, the result is NaN or infinity.
PITH_HD inline double upper_bits(double x) {
  auto const rounded = bits_as<std::uint64_t>(x) + (std::uint64_t{1} << 26);
  return bits_as<double>(rounded >> 27 << 27);
}

/// Returns sum + a b for values a and b of type A. Every product that is added is exact. If A is float, a b is exact in
/// double precision. If A is double, a and b are each split into two 26-bit parts, and the four products of these parts
/// are added. A product of two parts is exact if it does not underflow. Since the products are exact, a fused
/// multiply-add gives the same result as a product and a sum.
template <class A>
PITH_HD inline double add_product(double sum, double a, double b) {
  if constexpr (sizeof(A) < 8) return sum + a * b;
  auto const high_a = upper_bits(a), high_b = upper_bits(b);
  auto const low_a = a - high_a, low_b = b - high_b;
  return sum + high_a * high_b + high_a * low_b + low_a * high_b + low_a * low_b;
}

}}}  // namespace pith::PITH_ABI::detail
