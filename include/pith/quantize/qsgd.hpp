// pith/quantize/qsgd.hpp — stochastic rounding to equally spaced levels up to a bucket's norm.
#pragma once

#include <pith/core/detail/squares.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// The norm of a bucket. The QSGD levels divide the range from 0 to the norm into equal parts.
enum class norm : std::uint8_t { l2, max };

namespace detail {

/// Rounds v up to a number with `Digits` significant bits. Returns NaN and infinity unchanged.
template <int Digits, class A>
PITH_HD inline A round_up(double v) {
  using word = bits_of<A>;
  constexpr int spare = (sizeof(A) == 8 ? 53 : 24) - Digits;
  constexpr auto mask = (word{1} << spare) - 1;
  auto const near = static_cast<A>(v);
  auto bits = bits_as<word>(near);
  if (!is_finite(near)) return near;
  if (static_cast<double>(near) < v) ++bits;
  return bits_as<A>(static_cast<word>((bits + mask) & ~mask));
}

/// Rounds v >= 0 down to a number with `Digits` significant bits.
template <int Digits, class A>
PITH_HD inline A round_down(A v) {
  constexpr int spare = (sizeof(A) == 8 ? 53 : 24) - Digits;
  return bits_as<A>(bits_as<bits_of<A>>(v) >> spare << spare);
}

/// The statistic from which a bucket's norm is computed: the sum of squares or, in the type of this sum, the largest
/// magnitude.
template <norm Of>
struct norm_terms {
  template <class A>
  PITH_HD squares<A> measure(A x) const {
    if constexpr (Of == norm::l2) return squared(x);
    return {largest_terms().measure(x)};
  }
  PITH_HD double merge(double a, double b) const { return Of == norm::l2 ? a + b : larger{}(a, b); }
  PITH_HD wide_squares merge(wide_squares const& a, wide_squares const& b) const {
    if constexpr (Of == norm::l2) return a + b;
    return {larger{}(a.usual, b.usual)};
  }
  PITH_HD static double length(double statistic) { return Of == norm::l2 ? root(statistic) : statistic; }
  PITH_HD static double length(wide_squares const& statistic) {
    return Of == norm::l2 ? root(statistic) : statistic.usual;
  }
};

/// The scale of a bucket is called unit, and is norm / levels. A symbol is an integer in two's complement, and decodes
/// to the integer times the unit.
template <int Bits>
struct qsgd_rule {
  using facets = ext::facets<ext::chosen_terms, ext::refined, ext::scaled>;

  static constexpr int bits = Bits;
  static constexpr bool draws = true;
  static constexpr bool is_reproducible = true;
  /// The number of significant bits of a unit. A unit and a symbol's magnitude (Bits - 1 bits) together have at most 24
  /// bits, so their product is exact in a float. A fused multiply-add therefore cannot change a residual.
  static constexpr int digits = Bits < 10 ? 16 : 15;

  std::int32_t levels;
  norm of;

  template <class A>
  PITH_HD squares<A> measure(A x) const {
    return of == norm::l2 ? norm_terms<norm::l2>().measure(x) : norm_terms<norm::max>().measure(x);
  }
  template <class Statistic>
  PITH_HD Statistic merge(Statistic const& a, Statistic const& b) const {
    return of == norm::l2 ? norm_terms<norm::l2>().merge(a, b) : norm_terms<norm::max>().merge(a, b);
  }
  template <class F>
  PITH_HD void with_terms(F const& f) const {
    of == norm::l2 ? f(norm_terms<norm::l2>()) : f(norm_terms<norm::max>());
  }

  /// The unit is NaN if an element is NaN or infinite. If `levels` units would be infinite, the unit is the largest for
  /// which they are finite, so that each finite element is at most `levels` units.
  template <class A>
  PITH_HD A finish(squares<A> const& statistic, std::uint64_t, A) const {
    auto const is_l2 = of == norm::l2;
    auto const length = is_l2 ? norm_terms<norm::l2>::length(statistic) : norm_terms<norm::max>::length(statistic);
    auto const unit = round_up<digits, A>(length / levels), most = static_cast<A>(levels);
    if (is_finite(unit * most)) return unit;
    return is_finite(total(statistic)) ? round_down<digits>(largest_finite<A> / most) : A{written_nan<A>};
  }

  /// Two factors whose product is 65536 / unit. So |x| * near * inverse is |x| / unit as a 16.16 fixed-point number.
  /// The factor `near` keeps `inverse` finite if the unit is tiny.
  template <class A>
  struct inverse_unit {
    A near, inverse;
  };
  template <class A>
  PITH_HD inverse_unit<A> refine(A unit) const {
    auto const near = unit < A{0x1p-60f} ? A{0x1p60f} : A{1};
    return {near, unit > 0 ? 65536 / (unit * near) : A{0}};
  }

  /// Computes floor(|x| / unit + r) in fixed point, where r = random / 2^16. The fixed-point number is clamped before
  /// its conversion to int, because the conversion of NaN is undefined.
  template <class A>
  PITH_HD std::uint32_t code(A x, inverse_unit<A> unit, std::uint16_t random) const {
    auto const most = static_cast<A>(levels) * 65536;
    auto const fixed = static_cast<std::int32_t>(at_most(magnitude(x) * unit.near * unit.inverse, most));
    auto const level = (fixed + random) >> 16;
    auto const sign = -sign_bit(x);
    return static_cast<std::uint32_t>((level ^ sign) - sign) & ((1u << Bits) - 1);
  }
  template <class A>
  PITH_HD A scaled(A unit, A power) const {
    return unit * power;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A unit) const {
    auto const level = static_cast<std::int32_t>(symbol << (32 - Bits)) >> (32 - Bits);
    return static_cast<A>(level) * unit;
  }
};

}  // namespace detail

/// Rounds each element to a multiple of norm / levels, up or down at random, where `norm` is the norm of the element's
/// bucket. The expected result equals the element.
///
///   emits       n symbols of Bits bits, in two's complement; side information: norm / levels per bucket, rounded up to
///               16 significant bits (15 for Bits = 10)
///   requires    1 <= levels <= 2^(Bits-1) - 1 (the default is the maximum); a bucket size of 0 or a multiple of 8 (the
///               default is 128)
///   complexity  16 random bits per element
///   on NaN      a bucket decodes to NaN if it contains NaN or infinity
///   properties  unbiased up to 2^-16 of a level plus 2^-23 of the element; omega = min(b / (4 s^2), sqrt(b) / s) for b
///               elements per bucket and s levels; reproducible. For double, qsgd is reproducible only if sums are
///               compiled without fused multiply-add, because squares are inexact
///   reference   Alistarh, Grubic, Li, Tomioka and Vojnovic, QSGD, NeurIPS 2017, but without entropy coding
template <int Bits>
class qsgd : public scalar_quantizer<detail::qsgd_rule<Bits>> {
  static_assert(2 <= Bits && Bits <= 10, "pith: qsgd<Bits> needs 2 <= Bits <= 10: a sign and at least one level");

 public:
  using facets = ext::facets<ext::unbiased>;

  static constexpr int max_levels = (1 << (Bits - 1)) - 1;
  static constexpr codec_traits traits = {.reproducible = true, .ternary = Bits == 2};

  explicit qsgd(int levels = max_levels, std::uint64_t bucket = 128, norm of = norm::l2)
      : scalar_quantizer<detail::qsgd_rule<Bits>>({levels, of}, bucket, "qsgd") {
    detail::require(1 <= levels && levels <= max_levels, "qsgd<", Bits, ">: levels must be in [1, ", max_levels,
                    "], got ", levels);
  }

  std::string name() const {
    auto const& rule = this->rule();
    auto const text = detail::text("qsgd<", Bits, ">");
    if (rule.levels == max_levels && this->bucket() == 128 && rule.of == norm::l2) return text;
    return detail::text(text, "(", rule.levels, ",", this->bucket(), rule.of == norm::max ? ",max)" : ")");
  }

  /// The formula for omega divides the number of levels by 1 + 2^(1 - digits), because rounding the unit up multiplies
  /// the unit by up to this factor.
  double omega(shape const& dims) const {
    auto const b = static_cast<double>(this->bucket_of(dims.n));
    auto const s = static_cast<double>(this->rule().levels) / (1 + 2.0 / (1 << detail::qsgd_rule<Bits>::digits));
    return std::min(b / (4 * s * s), std::sqrt(b) / s);
  }
};

static_assert(stage<qsgd<8>, float, archetype> && promises_of<qsgd<8>>.unbiased && !promises_of<qsgd<8>>.contractive);

}}  // namespace pith::PITH_ABI
