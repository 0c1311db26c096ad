// pith/quantize/stochastic_cast.hpp — stochastic rounding to bfloat16.
#pragma once

#include <pith/quantize/scalar_quantizer.hpp>

#include <concepts>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A symbol is the upper half of a float. The magnitude increases by one unit if the lower half plus the random bits
/// carries into the upper half.
struct stochastic_cast_rule {
  using facets = ext::facets<ext::scaled>;

  static constexpr int bits = 16;
  static constexpr bool draws = true;
  static constexpr bool is_reproducible = true;

  static constexpr std::uint32_t infinite = 0x7f800000, quiet_nan = 0x7fc00000;

  template <class A>
  PITH_HD std::uint32_t code(A x, unscaled<A>, std::uint16_t random) const {
    auto const near = static_cast<float>(x);  // infinite for a large double
    auto const size = magnitude_bits(near), sum = size + random;
    auto const finite = sum < infinite ? sum : infinite - 1;
    // The sums are values: device code must not refer to a static member.
    auto const special = is_finite(x) ? infinite - 1 : x != x ? quiet_nan + 0 : infinite + 0;
    return (size < infinite ? finite : special) >> 16 | static_cast<std::uint32_t>(sign_bit(near)) << 15;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, unscaled<A>) const {
    return static_cast<A>(bits_as<float>(symbol << 16));
  }

  /// The rule has no scale. `value` multiplies the decoded value by `power`.
  template <class A>
  PITH_HD A scaled(unscaled<A>, A power) const {
    return power;
  }
  template <std::floating_point A>
  PITH_HD A value(std::uint32_t symbol, A power) const {
    return power * value(symbol, unscaled<A>());
  }
};

}  // namespace detail

/// Rounds each element to one of the two nearest values of bfloat16, at random. The expected result equals the element.
/// Each rank adds the decoded values of all ranks in float, or in double for gradients of double. So the rounding errors
/// of the ranks average out. `cast<bfloat16>` rounds to nearest, so the errors of ranks with equal gradients are equal,
/// and do not average out.
///
///   emits       n symbols of 16 bits, which are values of bfloat16; no side information
///   requires    T = bfloat16. omega and delta hold for magnitudes from 2^-126 to 0x1.fep127, the largest bfloat16. A
///               smaller magnitude becomes a multiple of 2^-133. A larger finite magnitude becomes 0x1.fep127
///   complexity  one read of x, 16 random bits per element
///   on NaN      NaN and infinity decode to themselves, and other elements are not affected
///   properties  unbiased: exactly for float, and up to 2^-24 of an element for double; omega = 2^-16. Contractive with
///               delta = 1 - 2^-14. Values of bfloat16 are exact. Reproducible
///   reference   Gupta, Agrawal, Gopalakrishnan and Narayanan, Deep Learning with Limited Numerical Precision, ICML 2015
template <real T>
class stochastic_cast : public scalar_quantizer<detail::stochastic_cast_rule> {
  static_assert(std::same_as<T, bfloat16>, "pith: stochastic_cast<T> needs T = bfloat16");

 public:
  using facets = ext::facets<ext::unbiased, ext::contractive>;

  constexpr stochastic_cast() : scalar_quantizer<detail::stochastic_cast_rule>(detail::stochastic_cast_rule()) {}

  std::string name() const { return detail::text("stochastic_cast<", element_name<T>(), ">"); }
  double omega(shape const&) const { return 0x1p-16; }
  double delta(shape const&) const { return 1 - 0x1p-14; }
};

static_assert(stage<stochastic_cast<bfloat16>, float, archetype> && promises_of<stochastic_cast<bfloat16>>.unbiased &&
              promises_of<stochastic_cast<bfloat16>>.contractive);

}}  // namespace pith::PITH_ABI
