// pith/quantize/eden.hpp — the nearest points of a normal distribution's best quantizer, for rotated values.
#pragma once

#include <pith/core/scaling.hpp>
#include <pith/quantize/detail/normal_points.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The scale of a bucket is the root of its mean square, times `gain`. The highest bit of a symbol is the sign. The other
/// bits are the index of a point.
template <int Bits>
struct eden_rule : norm_terms<norm::l2> {
  using facets = ext::facets<ext::refined, ext::scaled>;

  static constexpr int bits = Bits;
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;

  float gain = 1;  ///< 1, or the gain with which the expected result equals the input

  /// For d elements on a sphere of radius sqrt(d), uniformly distributed: 1 / E[c(z) z], where z is an element and c(z)
  /// the point of z. The first term is the limit for large d. The error of the difference is at most 1e-4 for d >= 64.
  static constexpr float unbiased_gain(std::uint64_t d) {
    constexpr float limits[] = {1.5707963f, 1.1331212f, 1.035784f,  1.0095921f,
                                1.002511f,  1.0006447f, 1.0001635f, 1.0000412f};
    constexpr float slopes[] = {0.392506f, 0.450275f, 0.250757f, 0.102368f, 0.034171f, 0.010036f, 0.002729f, 0.000711f};
    return limits[Bits - 1] - (d == 0 ? 0 : slopes[Bits - 1] / static_cast<float>(d));
  }

  /// A scale of type double keeps 29 significant bits, and a point has 24. So their product is exact in double precision.
  template <class A>
  PITH_HD A finish(squares<A> const& statistic, std::uint64_t count, A) const {
    constexpr int digits = sizeof(A) == 8 ? 29 : 24;
    return finite_or_nan(round_up<digits, A>(root(statistic, sqrt(static_cast<double>(count))) * gain));
  }
  template <class A>
  struct mean_square_root {
    A value;
  };
  template <class A>
  PITH_HD mean_square_root<A> refine(A scale) const {
    return {scale / static_cast<A>(gain)};
  }

  template <class A>
  PITH_HD std::uint32_t code(A x, mean_square_root<A> unit, std::uint16_t) const {
    auto const index = nearest_normal_point<Bits>(static_cast<float>(magnitude(x) / unit.value));
    return static_cast<std::uint32_t>(x < 0) << (Bits - 1) | index;
  }
  template <class A>
  PITH_HD A scaled(A scale, A power) const {
    return scale * power;
  }
  /// The product is exact in double precision. A fused multiply-add therefore gives the same result as a product and a
  /// sum.
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    auto const point = normal_point<Bits>(symbol & ((1u << (Bits - 1)) - 1));
    auto const size = static_cast<A>(static_cast<double>(point) * static_cast<double>(scale));
    return symbol >> (Bits - 1) != 0 ? -size : size;
  }
};

}  // namespace detail

/// Divides each element by the root of its bucket's mean square, and rounds the quotient to the nearest point of the
/// quantizer with 2^Bits points that has the least squared error for N(0, 1). Multiplies the point by the scale of the
/// bucket. The scale is the root of the mean square or, with scaling::unbiased, this root times a constant. A rotation
/// before eden makes the elements of a tile close to normally distributed: `hadamard() | eden<4>()`.
///
///   emits       n symbols of Bits bits, in which the highest bit is the sign and 0 counts as positive; side information:
///               one scale per bucket (for double, rounded up to 29 bits)
///   requires    a bucket size of 0 (the whole tensor) or a multiple of 8; the default is 256, the tile of hadamard
///   complexity  one division and 2^(Bits-1) - 1 comparisons per element
///   on NaN      a bucket that contains NaN or infinity decodes to NaN. Elements larger than a half of the largest finite
///               number of their type may decode to infinity, and their bucket to NaN
///   properties  contractive; reproducible, for double only if sums are compiled without fused multiply-add, because
///               squares are inexact. delta is that of the worst bucket, in which few elements are large: for 256 elements and
///               scaling::none it is 0.19 for 3 bits, 0.30 for 4 bits, 0.49 for 8 bits, and 0 or less for fewer bits.
///               After a rotation, the squared error is D |x|^2 for elements close to normally distributed, where D =
///               0.363, 0.117, 0.0345, 0.0095, 0.0025, 6.4e-4, 1.6e-4 and 4.1e-5 for 1 to 8 bits. With scaling::unbiased
///               it is D / (1 - D). A rotation by random signs leaves a bias if few elements of a tile differ from 0: for
///               (1, 0.9, 0, ...) the bias of 1 bit is 0.9 |x|. Two rotations, `hadamard() | hadamard() | eden<1>()`,
///               reduce it to 0.02 |x|
///   reference   Vargaftik, Ben Basat, Portnoy, Mendelson, Ben-Itzhak and Mitzenmacher, EDEN, ICML 2022; for 1 bit: DRIVE,
///               NeurIPS 2021. There the scale follows from all symbols of a tile; here it is known before coding
template <int Bits>
class eden : public scalar_quantizer<detail::eden_rule<Bits>> {
  static_assert(1 <= Bits && Bits <= 8, "pith: eden<Bits> needs 1 <= Bits <= 8");
  using rule_type = detail::eden_rule<Bits>;

 public:
  using facets = ext::facets<ext::contractive>;

  explicit constexpr eden(std::uint64_t bucket = 256, scaling how = scaling::none)
      : scalar_quantizer<rule_type>({{}, how == scaling::none ? 1 : rule_type::unbiased_gain(bucket)}, bucket, "eden") {
  }
  constexpr eden(std::uint64_t bucket, option<scaling::none>) : eden(bucket) {}
  constexpr eden(std::uint64_t bucket, option<scaling::unbiased>) : eden(bucket, scaling::unbiased) {}

  std::string name() const {
    auto const text = detail::text("eden<", Bits, ">");
    if (this->rule().gain != 1) return detail::text(text, "(", this->bucket(), ",unbiased)");
    return this->bucket() == 256 ? text : detail::text(text, "(", this->bucket(), ")");
  }
  /// The error of an element u, in units of the root of the mean square, is a function of u^2 that is convex between two
  /// borders. So the worst bucket has at most two values of u^2, which are borders, 0 or the bucket size.
  double delta(shape const& dims) const {
    if (dims.n == 0) return 1;
    auto const size = static_cast<double>(this->bucket_of(dims.n));
    double lost = 0;
    for_each_end(size, [&](double low, double lost_low) {
      for_each_end(size, [&](double high, double lost_high) {
        if (low > 1 || high < 1) return;
        auto const share = high > low ? (1 - low) / (high - low) : 0;
        lost = std::max(lost, lost_low + share * (lost_high - lost_low));
      });
    });
    return 1 - lost;
  }

 private:
  /// Calls f(u^2, error^2) at both ends of each range of u that is rounded to one point.
  template <class F>
  void for_each_end(double size, F const& f) const {
    auto const points = detail::make_normal_points<Bits>(), borders = detail::make_normal_borders<Bits>();
    auto const most = std::sqrt(size);  // of u, if one element differs from 0
    double low = 0;
    for (std::uint32_t i = 0; i < points.count && low < most; ++i) {
      auto const high = i + 1 < points.count ? std::min<double>(borders.at[i], most) : most;
      for (auto const u : {low, high}) {
        auto const error = u - static_cast<double>(this->rule().gain) * static_cast<double>(points.at[i]);
        f(u * u, error * error);
      }
      low = high;
    }
  }
};

static_assert(stage<eden<4>, float, archetype> && promises_of<eden<4>>.contractive && !promises_of<eden<4>>.unbiased);

}}  // namespace pith::PITH_ABI
