// pith/quantize/mx.hpp — the OCP microscaling formats: each block of 32 elements shares a power of two.
#pragma once

#include <pith/quantize/detail/small_float.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// The element formats of mxfp8 and mxfp6: a sign, exponent bits and mantissa bits.
enum class fp8_format : std::uint8_t { e4m3, e5m2 };
enum class fp6_format : std::uint8_t { e2m3, e3m2 };

/// How a block rounds its scale 2^e. The largest magnitude in the block is a. The largest number of the element format
/// is L, and its exponent is E. Elements above L 2^e saturate.
enum class mx_scale : std::uint8_t {
  floor,  ///< e = floor(log2 a) - E, as in the standard; elements may saturate
  even,   ///< as floor, after a has been rounded to the mantissa of the element format; elements may saturate
  ceil,   ///< e = ceil(log2 a) - E
  rceil,  ///< e = ceil(log2(a / L)), the least scale at which no element saturates
};

namespace detail {

/// A scale in the format E8M0: 2^(byte - 127), or NaN for the byte 255.
template <class A>
struct e8m0_scale {
  std::uint8_t byte;
};
inline constexpr int e8m0_bias = 127;
inline constexpr std::uint8_t e8m0_nan = 255;

/// Computes the scale of a block.
struct e8m0_rule : largest_terms {
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;

  std::int32_t max_exponent;
  std::uint64_t
      max_fraction;  ///< e is 1 larger if the fraction of the largest magnitude, in 52 bits, exceeds this number

  constexpr e8m0_rule(small_float const& format, mx_scale choice)
      : max_exponent(format.max_exponent), max_fraction(fraction_of(format, choice)) {}

  /// For float, the scale is limited to 2^(127 - max_exponent), so that no element decodes to infinity.
  template <class A>
  PITH_HD e8m0_scale<A> finish(double largest, std::uint64_t, A) const {
    if (!is_finite(largest)) return {e8m0_nan};
    auto const bits = bits_as<std::uint64_t>(largest);
    auto const carry = (bits & fractions) > max_fraction ? 1 : 0;
    auto const byte = static_cast<std::int32_t>(bits >> 52) - 1023 - max_exponent + carry + e8m0_bias;
    auto const max_byte = sizeof(A) == 4 ? 2 * e8m0_bias - max_exponent : e8m0_nan;
    return {static_cast<std::uint8_t>(byte < 0 ? 0 : byte > max_byte ? max_byte : byte)};
  }
  /// The inverse of the scale; 0 if the scale is NaN.
  template <class A>
  PITH_HD A refine(e8m0_scale<A> scale) const {
    return scale.byte == e8m0_nan ? A{0} : power_of_two<A>(e8m0_bias - scale.byte);
  }
  template <class A>
  PITH_HD A scaled(e8m0_scale<A> scale, A power) const {
    return scale.byte == e8m0_nan ? written_nan<A> : power_of_two<A>(scale.byte - e8m0_bias) * power;
  }

 protected:
  static constexpr auto fractions = (std::uint64_t{1} << 52) - 1;

  /// |x| / scale; 0 if the scale is NaN.
  template <class A>
  PITH_HD static A quotient(A x, A inverse) {
    return inverse > 0 ? magnitude(x) * inverse : A{0};
  }

 private:
  static constexpr std::uint64_t fraction_of(small_float const& format, mx_scale choice) {
    auto const spare = 52 - format.mantissa_bits;
    auto const all_ones = (std::uint64_t{1} << format.mantissa_bits) - 1;
    switch (choice) {
      case mx_scale::floor: return fractions;
      case mx_scale::even: return fractions - (std::uint64_t{1} << (spare - 1));
      case mx_scale::ceil: return 0;
      case mx_scale::rceil: break;
    }
    return (format.max_code & all_ones) << spare;
  }
};

/// A symbol is a sign bit and the code of a small_float.
template <int Bits>
struct mx_float_rule : e8m0_rule {
  using facets = ext::facets<ext::refined, ext::scaled>;

  static constexpr int bits = Bits;

  small_float format;

  constexpr mx_float_rule(small_float const& of, mx_scale choice) : e8m0_rule(of, choice), format(of) {}

  template <class A>
  PITH_HD std::uint32_t code(A x, A inverse, std::uint16_t) const {
    auto const nearest = format.code(quotient(x, inverse));
    auto const sign = nearest > 0 ? static_cast<std::uint32_t>(sign_bit(x)) : 0u;
    return nearest | sign << (Bits - 1);
  }
  /// The number has at most 4 significant bits and the scale is a power of two, so their product is exact, unless it is
  /// below the least subnormal number of A.
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    auto const number = format.value<A>(symbol & ((1u << (Bits - 1)) - 1)) * scale;
    return symbol >> (Bits - 1) != 0 ? -number : number;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, e8m0_scale<A> scale) const {
    return value(symbol, this->scaled(scale, A{1}));
  }
};

/// A symbol is an integer in two's complement, and decodes to (integer / 64) times the scale.
struct mx_int_rule : e8m0_rule {
  using facets = ext::facets<ext::refined, ext::scaled>;

  static constexpr int bits = 8;
  static constexpr small_float format = {6, 0, 0, 127};  ///< the multiples of 1/64

  explicit constexpr mx_int_rule(mx_scale choice) : e8m0_rule(format, choice) {}

  /// Adding `magic` rounds to the nearest integer, ties to even.
  template <class A>
  PITH_HD std::uint32_t code(A x, A inverse, std::uint16_t) const {
    constexpr auto magic = sizeof(A) == 8 ? static_cast<A>(0x1.8p52) : static_cast<A>(0x1.8p23f);
    auto const size = at_most(quotient(x, inverse) * 64, A{127});
    auto const level = static_cast<std::int32_t>((size + magic) - magic);
    auto const sign = -sign_bit(x);
    return static_cast<std::uint32_t>((level ^ sign) - sign) & 0xff;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    return static_cast<A>(static_cast<std::int8_t>(symbol)) * (scale / 64);
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, e8m0_scale<A> scale) const {
    return value(symbol, scaled(scale, A{1}));
  }
};

/// The contraction of blocks of g elements. Relative to the scale, the largest magnitude of a block is in [low, high),
/// and its relative error is at most `top`. In the worst block, each of the other elements equals half of the least
/// subnormal number, and decodes to 0.
inline double mx_delta(small_float const& format, mx_scale choice, std::uint64_t g) {
  if (g == 0) return 1;
  auto const largest = format.value<double>(format.max_code);
  auto const tie = power_of_two<double>(-format.mantissa_bits - 1);
  auto const binade = power_of_two<double>(format.max_exponent);
  auto const is_even = choice == mx_scale::even, is_floor = choice == mx_scale::floor;
  auto const low = is_even    ? binade * (1 - tie / 2)
                   : is_floor ? binade
                              : (choice == mx_scale::ceil ? binade / 2 : largest / 2);
  auto const high = is_even ? 2 * binade * (1 - tie / 2) : is_floor ? 2 * binade : low;
  auto const half_step = power_of_two<double>(format.min_exponent - format.mantissa_bits) / 2;
  auto const top = std::max(format.max_exponent > format.min_exponent ? tie / (1 + tie) : half_step / low,
                            high > largest ? (high - largest) / high : 0);
  auto const others = static_cast<double>(g - 1) * half_step * half_step;
  return 1 - (top * top * low * low + others) / (low * low + others);
}

inline char const* word_of(mx_scale choice) {
  constexpr char const* words[] = {"floor", "even", "ceil", "rceil"};
  return words[static_cast<unsigned>(choice)];
}

}  // namespace detail

/// The base class of the microscaling formats. A block of 32 elements has the scale 2^e, which mx_scale computes from
/// the largest magnitude. Each element is divided by the scale, and rounded to the nearest number of the element format,
/// ties to even codes. Elements above the largest number saturate, and zeros have the sign bit 0.
///
///   emits       n symbols; side information: the byte e + 127 of each block (E8M0). If n is a multiple of 128, mxfp4
///               sends 4.25 bits per element, mxfp6 sends 6.25 bits, mxfp8 and mxint8 send 8.25 bits
///   requires    a scale below 2^-127 is stored as 2^-127, so the elements of such a block lose digits or become 0. For
///               float, a scale above 2^(127 - E) is stored as 2^(127 - E), so large elements saturate (E: mx_scale)
///   complexity  one or two multiplications per element
///   on NaN      a block decodes to NaN if it contains NaN or infinity; for double, also if its scale exceeds 2^127
///   properties  contractive, reproducible. delta holds if e is stored without a change. Use a microscaling format with
///               error feedback, or as the codec of two_shot
///   reference   Open Compute Project, OCP Microscaling Formats (MX) Specification, version 1.0, 2023; Rouhani et al.,
///               Microscaling Data Formats for Deep Learning, 2023. The rules of the scale besides `floor` are those of
///               later software and hardware
template <class Rule>
class mx_quantizer : public scalar_quantizer<Rule> {
 public:
  using facets = ext::facets<ext::contractive>;

  /// The number of elements per block.
  static constexpr std::uint64_t block = 32;

  mx_scale scale_choice() const { return choice_; }
  double delta(shape const& dims) const {
    return detail::mx_delta(this->rule().format, choice_, std::min(dims.n, block));
  }

 protected:
  mx_quantizer(Rule const& rule, mx_scale choice, char const* codec)
      : scalar_quantizer<Rule>(rule, block, codec), choice_(choice) {}

  /// The name of the codec, with the arguments that differ from the default.
  std::string named(char const* codec, char const* format, mx_scale usual) const {
    if (choice_ == usual) return *format == 0 ? codec : detail::text(codec, "(", format, ")");
    return detail::text(codec, "(", format, *format == 0 ? "" : ",", detail::word_of(choice_), ")");
  }

 private:
  mx_scale choice_;
};

/// Elements of 8 bits: E4M3, with numbers up to 448, or E5M2, with numbers up to 57344. For gradients, mxint8 has a
/// smaller squared error.
class mxfp8 : public mx_quantizer<detail::mx_float_rule<8>> {
 public:
  explicit mxfp8(fp8_format format = fp8_format::e4m3, mx_scale choice = mx_scale::rceil)
      : mx_quantizer({format == fp8_format::e4m3 ? detail::e4m3() : detail::e5m2(), choice}, choice, "mxfp8"),
        format_(format) {}

  std::string name() const {
    auto const is_usual = format_ == fp8_format::e4m3;
    auto const* const format = !is_usual ? "e5m2" : scale_choice() == mx_scale::rceil ? "" : "e4m3";
    return named("mxfp8", format, mx_scale::rceil);
  }

 private:
  fp8_format format_;
};

/// Elements of 6 bits: E2M3, with numbers up to 7.5, or E3M2, with numbers up to 28.
class mxfp6 : public mx_quantizer<detail::mx_float_rule<6>> {
 public:
  explicit mxfp6(fp6_format format = fp6_format::e2m3, mx_scale choice = mx_scale::even)
      : mx_quantizer({format == fp6_format::e2m3 ? detail::e2m3() : detail::e3m2(), choice}, choice, "mxfp6"),
        format_(format) {}

  std::string name() const {
    auto const is_usual = format_ == fp6_format::e2m3;
    auto const* const format = !is_usual ? "e3m2" : scale_choice() == mx_scale::even ? "" : "e2m3";
    return named("mxfp6", format, mx_scale::even);
  }

 private:
  fp6_format format_;
};

/// Elements of 4 bits, E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
class mxfp4 : public mx_quantizer<detail::mx_float_rule<4>> {
 public:
  explicit mxfp4(mx_scale choice = mx_scale::even) : mx_quantizer({detail::e2m1(), choice}, choice, "mxfp4") {}

  std::string name() const { return named("mxfp4", "", mx_scale::even); }
};

/// Elements of 8 bits: multiples of 1/64 up to 127/64.
class mxint8 : public mx_quantizer<detail::mx_int_rule> {
 public:
  explicit mxint8(mx_scale choice = mx_scale::rceil) : mx_quantizer(detail::mx_int_rule(choice), choice, "mxint8") {}

  std::string name() const { return named("mxint8", "", mx_scale::rceil); }
};

static_assert(stage<mxfp8, float, archetype> && promises_of<mxfp4>.contractive && !promises_of<mxint8>.unbiased);
static_assert(reproducible<mxfp6>);

}}  // namespace pith::PITH_ABI
