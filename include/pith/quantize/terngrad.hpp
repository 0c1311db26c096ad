// pith/quantize/terngrad.hpp — stochastic rounding to -s, 0 or s, where s is a bucket's scale.
#pragma once

#include <pith/core/option.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <cmath>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// Selects whether magnitudes above sigma standard deviations are clipped before rounding.
enum class outliers : std::uint8_t { clipped, unclipped };

namespace options {
inline constexpr option<outliers::unclipped> unclipped = {};
}  // namespace options

namespace detail {

/// Returns v with its lower 29 bits cleared. The square of the result is exact, so a fused multiply-add cannot change a
/// sum that contains the square.
PITH_HD inline double short_of(double v) { return bits_as<double>(bits_as<std::uint64_t>(v) >> 29 << 29); }

/// The rule of QSGD with one level. The scale is the largest magnitude or, with clipping, at most sigma standard
/// deviations.
struct terngrad_rule {
  using facets = ext::facets<ext::refined, ext::scaled, ext::members>;

  static constexpr int bits = 2;
  static constexpr bool draws = true;
  static constexpr bool is_reproducible = true;

  double sigma;

  struct moments {
    double largest, sum, squares;
  };
  static constexpr double moments::*members[] = {&moments::largest, &moments::sum, &moments::squares};

  template <class A>
  PITH_HD moments measure(A x) const {
    auto const v = static_cast<double>(x);
    return {magnitude(v), v, v * v};
  }
  PITH_HD moments merge(moments a, moments b) const {
    return {larger{}(a.largest, b.largest), a.sum + b.sum, a.squares + b.squares};
  }

  /// The bound is sigma standard deviations. If |mean| is not below the bound, as in a tensor with equal elements, no
  /// element is clipped.
  template <class A>
  PITH_HD A finish(moments of, std::uint64_t n, A) const {
    auto const count = static_cast<double>(n), mean = short_of(of.sum / count);
    auto const variance = of.squares / count - mean * mean;
    auto const bound = sigma * sqrt(variance > 0 ? variance : 0);
    auto const cuts = magnitude(mean) < bound && bound < of.largest;
    return finite_or_nan(static_cast<A>(cuts ? bound : of.largest));
  }

  /// Multiplies the inverse of the scale by 1 + 2^-22. The inverse, this multiplication and the product |x| * inverse
  /// have relative rounding errors of at most 2^-24 each, and (1 + 2^-22) (1 - 2^-24)^3 > 1. An element that equals the
  /// scale is therefore always rounded to symbol 1.
  template <class A>
  PITH_HD auto refine(A scale) const {
    auto inverse = qsgd().refine(scale);
    inverse.inverse *= A{1 + 0x1p-22f};
    return inverse;
  }
  template <class A>
  PITH_HD std::uint32_t code(A x, qsgd_rule<2>::inverse_unit<A> scale, std::uint16_t random) const {
    return qsgd().code(x, scale, random);
  }
  template <class A>
  PITH_HD A scaled(A scale, A power) const {
    return scale * power;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    return qsgd().value(symbol, scale);
  }
  /// The integer that represents a symbol in an all-reduce.
  PITH_HD std::int32_t level(std::uint32_t symbol) const { return static_cast<std::int32_t>(symbol << 30) >> 30; }

 private:
  PITH_HD static constexpr qsgd_rule<2> qsgd() { return {1, norm::max}; }
};

}  // namespace detail

/// Rounds each element to -s, 0 or s at random. Without clipping, s is the bucket's largest magnitude, and the expected
/// result equals the element. With clipping, s is at most sigma standard deviations, and elements of larger magnitude
/// become s or -s.
///
///   emits       n symbols of 2 bits, in two's complement; side information: one scale per bucket. trits(terngrad())
///               packs five symbols into a byte
///   requires    sigma >= 0 (default 2.5; 0 disables clipping); a bucket size of 0 (the whole tensor, the default) or a
///               multiple of 8
///   complexity  16 random bits per element
///   on NaN      a bucket that contains NaN or infinity decodes to NaN
///   errors      for double, squares of magnitudes above 1e154 overflow, and those below 1e-162 underflow. A bucket of
///               such magnitudes is not clipped
///   properties  terngrad(unclipped) is unbiased up to 2^-16 of s, with omega = (sqrt(b) - 1) / 2 + 2^-16 for b
///               elements per bucket; with error feedback, use damped(terngrad(unclipped)). With clipping, terngrad is
///               unbiased for the clipped gradient, without an error bound for x. Reproducible. For double, terngrad is
///               reproducible only if sums are compiled without fused multiply-add, because squares are inexact
///   reference   Wen, Xu, Yan, Wu, Wang, Chen and Li, TernGrad, NeurIPS 2017. Unlike in that paper, no element is
///               clipped if |mean| is at least the bound, so that equal elements are exact
template <outliers Which = outliers::clipped>
class terngrad : public scalar_quantizer<detail::terngrad_rule> {
 public:
  static constexpr codec_traits traits = {.reproducible = true, .ternary = true};

  explicit terngrad(double sigma = 2.5, std::uint64_t bucket = 0) : scalar_quantizer({sigma}, bucket, "terngrad") {
    detail::require(sigma >= 0 && is_finite(sigma), "terngrad: sigma must be finite and at least 0, got ", sigma);
  }

  std::string name() const {
    if (bucket() != 0) return detail::text("terngrad(", detail::shortest(rule().sigma), ",", bucket(), ")");
    return rule().sigma == 2.5 ? "terngrad" : detail::text("terngrad(", detail::shortest(rule().sigma), ")");
  }
};

template <>
class terngrad<outliers::unclipped> : public scalar_quantizer<detail::terngrad_rule> {
 public:
  using facets = ext::facets<ext::unbiased>;

  static constexpr codec_traits traits = {.reproducible = true, .ternary = true};

  explicit terngrad(option<outliers::unclipped> = {}, std::uint64_t bucket = 0)
      : scalar_quantizer({0}, bucket, "terngrad") {}

  std::string name() const { return bucket() == 0 ? "terngrad(0)" : detail::text("terngrad(0,", bucket(), ")"); }
  double omega(shape const& dims) const {
    return dims.n == 0 ? 0 : (std::sqrt(static_cast<double>(bucket_of(dims.n))) - 1) / 2 + 0x1p-16;
  }
};

terngrad(option<outliers::unclipped>, std::uint64_t = 0)->terngrad<outliers::unclipped>;

static_assert(stage<terngrad<>, float, archetype> && !promises_of<terngrad<>>.unbiased &&
              !promises_of<terngrad<>>.contractive);
static_assert(stage<terngrad<outliers::unclipped>, float, archetype> &&
              promises_of<terngrad<outliers::unclipped>>.unbiased);

}}  // namespace pith::PITH_ABI
