// pith/quantize/block_int.hpp — integers of a few bits with one scale per bucket, rounded to nearest.
#pragma once

#include <pith/core/option.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// How block_int chooses the scale of a bucket: from the largest magnitude, or with the least squared error.
enum class block_scale : std::uint8_t { largest, clip };

namespace options {
inline constexpr option<block_scale::clip> clip = {};
}  // namespace options

namespace detail {

/// A scale in the form that the payload stores. block_int_rule::refine converts this form to type A.
template <class A>
struct narrow_scale {
  bfloat16 value;
};

/// The scale of a bucket is its largest magnitude divided by `levels`. A symbol is an integer in two's complement, and
/// decodes to the integer times the scale.
template <int Bits>
struct block_int_rule : largest_terms {
  using facets = ext::facets<ext::refined, ext::scaled, ext::candidates>;

  static constexpr int bits = Bits;
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;
  static constexpr std::int32_t levels = (1 << (Bits - 1)) - 1;
  static constexpr unsigned candidates = 4;

  bool chooses = false;  ///< whether a bucket takes the best of its candidates

  /// The scale is rounded up, so |x| / scale is at most `levels`. It is rounded down for elements that would decode to
  /// infinity, also as bfloat16.
  template <class A>
  PITH_HD narrow_scale<A> finish(double largest, std::uint64_t, A) const {
    auto const scale = round_up<8, float>(largest / levels);
    auto const most = round_down<8>(largest_finite<bfloat16> / static_cast<float>(levels));
    auto const is_down = sizeof(A) == sizeof(float) && scale > most && largest <= largest_finite<float>;
    return {bfloat16(is_down ? most : finite_or_nan(scale))};
  }
  /// The scale times 1, 0.8, 0.6 or 0.45. Elements above `levels` times the candidate are clamped.
  template <class A>
  PITH_HD narrow_scale<A> candidate(narrow_scale<A> scale, unsigned c) const {
    auto const factor = c == 0 ? 1.0 : c == 1 ? 0.8 : c == 2 ? 0.6 : 0.45;
    return {bfloat16(round_up<8, float>(factor * static_cast<double>(static_cast<float>(scale.value))))};
  }
  template <class A>
  PITH_HD A refine(narrow_scale<A> scale) const {
    return static_cast<A>(static_cast<float>(scale.value));
  }

  /// Adding `magic` rounds |x| / scale to the nearest integer, ties to even. `magic` is so large that the sum has no
  /// fractional bits.
  template <class A>
  PITH_HD std::uint32_t code(A x, A scale, std::uint16_t) const {
    constexpr auto most = static_cast<A>(levels);
    constexpr auto magic = sizeof(A) == 8 ? static_cast<A>(0x1.8p52) : static_cast<A>(0x1.8p23f);
    auto const size = scale > 0 ? at_most(magnitude(x) / scale, most) : A{0};
    auto const level = static_cast<std::int32_t>((size + magic) - magic);
    auto const sign = -sign_bit(x);
    return static_cast<std::uint32_t>((level ^ sign) - sign) & ((1u << Bits) - 1);
  }
  template <class A>
  PITH_HD A scaled(narrow_scale<A> scale, A power) const {
    return refine(scale) * power;
  }
  /// The integer has at most 7 significant bits and the scale has 8 significant bits, so their product is exact.
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    auto const level = static_cast<std::int32_t>(symbol << (32 - Bits)) >> (32 - Bits);
    return static_cast<A>(level) * scale;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, narrow_scale<A> scale) const {
    return value(symbol, refine(scale));
  }
};

}  // namespace detail

/// Rounds each element to the nearest multiple of the scale of its bucket, ties to even multiples. The scale is s = the
/// largest magnitude in the bucket divided by L = 2^(Bits-1) - 1. With options::clip, the scale is s, 0.8 s, 0.6 s or
/// 0.45 s. The bucket takes the scale with the least squared error, and larger elements are clamped to L times the
/// scale.
///
///   emits       n symbols of Bits bits, in two's complement; side information: one bfloat16 scale per bucket, rounded
///               up to 8 significant bits
///   requires    a bucket size of 0 (the whole tensor) or a multiple of 8; the default is 128. With clip, a bucket size
///               of 8, 16, 32, 64, 128 or 256. For double, the range of scales is that of bfloat16, 2^-133 to 2^128. A
///               bucket decodes to zeros below this range
///   complexity  one division per element; with clip, five
///   on NaN      a bucket decodes to NaN if it contains NaN or infinity. For double, also if its scale exceeds the largest
///               bfloat16
///   properties  contractive. For g elements per bucket and q = ((1 + 2^-7) / (2 L))^2, 1 - delta is
///               g q / (1 + (g - 1) q). This is the relative squared error of the worst bucket. In this bucket, one
///               element has the largest magnitude, and each of the other g - 1 elements equals half a scale. delta
///               assumes that scales are at least 2^-126, that elements are below the largest bfloat16, and that gradients
///               are floats or doubles: the decoder also rounds to half or bfloat16. Use block_int with error feedback, or as the codec of
///               two_shot. For normally distributed values, 32 per bucket, clip divides the squared error by 2.4 for 2
///               bits and by 1.3 for 3 bits. For 4 bits, it gains nothing
///   reference   Dettmers, Lewis, Shleifer and Zettlemoyer, 8-bit Optimizers via Block-wise Quantization, ICLR 2022,
///               but with equidistant points. Clipping for the least squared error: Banner et al., Post Training 4-bit
///               Quantization of Convolutional Networks for Rapid-Deployment, NeurIPS 2019, but among four scales
template <int Bits>
class block_int : public scalar_quantizer<detail::block_int_rule<Bits>> {
  static_assert(2 <= Bits && Bits <= 8, "pith: block_int<Bits> needs 2 <= Bits <= 8: a sign and at least one level");

 public:
  using facets = ext::facets<ext::contractive>;

  explicit constexpr block_int(std::uint64_t bucket = 128, block_scale choice = block_scale::largest)
      : scalar_quantizer<detail::block_int_rule<Bits>>({{}, choice == block_scale::clip}, bucket, "block_int") {
    auto const has_size = bucket == 8 || bucket == 16 || bucket == 32 || bucket == 64 || bucket == 128 || bucket == 256;
    detail::require(has_size || !this->rule().chooses,
                    "block_int: with clip, bucket must be 8, 16, 32, 64, 128 or 256, got ", bucket);
  }
  constexpr block_int(std::uint64_t bucket, option<block_scale::clip>) : block_int(bucket, block_scale::clip) {}

  std::string name() const {
    if (this->rule().chooses) return detail::text("block_int<", Bits, ">(", this->bucket(), ",clip)");
    return detail::text("block_int<", Bits, this->bucket() == 128 ? ">" : detail::text(">(", this->bucket(), ")"));
  }
  double delta(shape const& dims) const {
    auto const others = static_cast<double>(this->bucket_of(dims.n)) - 1;
    auto const half = (1 + 0x1p-7) / (2 * detail::block_int_rule<Bits>::levels);
    return dims.n == 0 ? 1 : 1 - (others + 1) * half * half / (1 + others * half * half);
  }
};

static_assert(stage<block_int<8>, float, archetype> && promises_of<block_int<4>>.contractive &&
              !promises_of<block_int<8>>.unbiased);

}}  // namespace pith::PITH_ABI
