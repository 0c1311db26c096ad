// pith/lowrank/detail/exact_product.hpp — sums of products whose bits do not depend on fused multiply-add.
#pragma once

#include <pith/core/element.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// x rounded to 26 significant bits; x minus this has at most 26 as well. NaN or infinity for an infinite x.
PITH_HD inline double upper_bits(double x) {
  auto const rounded = bits_as<std::uint64_t>(x) + (std::uint64_t{1} << 26);
  return bits_as<double>(rounded >> 27 << 27);
}

/// sum + a b for values a, b of A. Every product that is added is exact: a product of two floats in double, or of two
/// halves of doubles unless it underflows. So fused and separate operations round alike.
template <class A>
PITH_HD inline double add_product(double sum, double a, double b) {
  if constexpr (sizeof(A) < 8) return sum + a * b;
  auto const high_a = upper_bits(a), high_b = upper_bits(b);
  auto const low_a = a - high_a, low_b = b - high_b;
  return sum + high_a * high_b + high_a * low_b + low_a * high_b + low_a * low_b;
}

}  // namespace pith::inline v0::detail
