// pith/lowrank/detail/exact_product.hpp — sums of products with the same bits whether or not the CPU fuses multiply and add.
#pragma once

#include <pith/core/element.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// x rounded to 26 significant bits; what is left, x minus this, has 26 at most. No number for an infinite x.
PITH_HD inline double upper_bits(double x) {
  auto const rounded = bits_as<std::uint64_t>(x) + (std::uint64_t{1} << 26);
  return bits_as<double>(rounded >> 27 << 27);
}

/// sum + a b, where a and b are values of A. Each product that is added is exact: of two floats in double, of two
/// halves of doubles as long as it does not underflow. So fused and separate operations round alike.
template <class A>
PITH_HD inline double add_product(double sum, double a, double b) {
  if constexpr (sizeof(A) < 8) return sum + a * b;
  auto const high_a = upper_bits(a), high_b = upper_bits(b);
  auto const low_a = a - high_a, low_b = b - high_b;
  return sum + high_a * high_b + high_a * low_b + low_a * high_b + low_a * low_b;
}

}  // namespace pith::inline v0::detail
