// pith/quantize/natural.hpp — stochastic rounding to powers of two, which are stored as sign and exponent.
#pragma once

#include <pith/quantize/scalar_quantizer.hpp>

#include <concepts>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A symbol consists of a sign, which is the highest bit, and a code. Code 0 means zero; any other code means 2^(code -
/// bias). Negative zero represents NaN.
template <int Bits>
struct natural_rule {
  using facets = ext::facets<ext::scaled>;

  static constexpr int bits = Bits;
  static constexpr bool draws = true;
  static constexpr bool is_reproducible = true;

  static constexpr std::uint32_t sign = 1u << (Bits - 1);
  static constexpr std::uint32_t most = Bits == 8 ? 127 : 254;  ///< 2^128 is not representable as a float
  static constexpr int bias = Bits == 8 ? 109 : 127;

  /// `fraction` is the number of fraction bits of A. `offset` is the exponent field of a power of two in A, minus the
  /// code of the same power of two.
  template <class A>
  static constexpr int fraction = sizeof(A) == 8 ? 52 : 23;
  template <class A>
  static constexpr std::uint32_t offset = (sizeof(A) == 8 ? 1023 : 127) - bias;

  /// The exponent increases by one if the fraction exceeds the random bits. In this comparison, the highest random bit
  /// is aligned with the highest bit of the fraction.
  template <class A>
  PITH_HD std::uint32_t code(A x, unscaled<A>, std::uint16_t random) const {
    using word = bits_of<A>;
    constexpr auto full = (word{1} << fraction<A>)-1;
    constexpr auto infinite = ~word{0} >> 1 & ~full;
    auto const size = magnitude_bits(x);
    auto const exponent =
        static_cast<std::uint32_t>((size + full - (word{random} << (fraction<A> - 16))) >> fraction<A>);
    auto const above = exponent > offset<A> ? exponent - offset<A> : 0;
    auto const code = above < most ? above : most;
    auto const negative = code > 0 ? static_cast<std::uint32_t>(sign_bit(x)) << (Bits - 1) : 0;
    return size < infinite ? code | negative : sign;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, unscaled<A>) const {
    using word = bits_of<A>;
    constexpr auto quiet_nan = ~word{0} >> 1 >> (fraction<A> - 1) << (fraction<A> - 1);
    auto const code = symbol & (sign - 1);
    auto const negative = word{symbol & sign} << (8 * sizeof(A) - Bits);
    auto const zero = negative > 0 ? quiet_nan : word{0};
    return bits_as<A>(code > 0 ? word{code + offset<A>} << fraction<A> | negative : zero);
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

/// Rounds each element to a power of two, up or down at random. The expected result equals the element.
///
///   emits       n symbols of Bits bits, which contain sign and exponent; no side information
///   requires    Bits = 8 or 9. The range of magnitudes is 2^-108 to 2^18 for 8 bits, and 2^-126 to 2^127 for 9 bits.
///               Larger magnitudes become the largest power, and smaller magnitudes become zero or the smallest power
///   complexity  one read of x, 16 random bits per element
///   on NaN      NaN or infinity decodes to NaN, and other elements are not affected. Half values above 2^15 may be
///               rounded up to 65504
///   properties  within the range, unbiased up to 2^-16 of an element, with omega = 1/8 + 2^-16; powers of two are
///               exact
///   reference   Horvath, Ho, Horvath, Sahu, Canini and Richtarik, Natural Compression, 2019, which uses 9 bits and all
///               exponents. The 8-bit form is that of GRACE, ICDCS 2021
template <int Bits = 8>
class natural : public scalar_quantizer<detail::natural_rule<Bits>> {
  static_assert(Bits == 8 || Bits == 9, "pith: natural<Bits> needs Bits of 8 (2^-108 to 2^18) or 9 (all exponents)");

 public:
  using facets = ext::facets<ext::unbiased>;

  constexpr natural() : scalar_quantizer<detail::natural_rule<Bits>>(detail::natural_rule<Bits>()) {}

  std::string name() const { return detail::text("natural<", Bits, ">"); }
  double omega(shape const&) const { return 1.0 / 8 + 0x1p-16; }
};

static_assert(stage<natural<8>, float, archetype> && promises_of<natural<8>>.unbiased &&
              !promises_of<natural<8>>.contractive);
static_assert(reproducible<natural<9>>);

}}  // namespace pith::PITH_ABI
