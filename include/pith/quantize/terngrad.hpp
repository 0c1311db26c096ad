// pith/quantize/terngrad.hpp — stochastic rounding to -s, 0 or s for a scale s.
#pragma once

#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <cmath>
#include <string>

namespace pith::inline v0 {

/// Whether elements beyond a few standard deviations are clipped before rounding.
enum class outliers : std::uint8_t { cut, kept };

namespace detail {

/// v without its lower bits: its square is exact, so that a fused multiply-add cannot change a sum with it.
PITH_HD inline double short_of(double v) { return bits_as<double>(bits_as<std::uint64_t>(v) >> 29 << 29); }

/// QSGD of one level, the scale: the largest magnitude, or sigma standard deviations if smaller.
struct terngrad_rule {
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

  /// If the mean is beyond the bound, as in a tensor of equal elements, no element is an outlier.
  template <class A>
  PITH_HD A finish(moments of, std::uint64_t n, A) const {
    auto const count = static_cast<double>(n), mean = short_of(of.sum / count);
    auto const variance = of.squares / count - mean * mean;
    auto const bound = sigma * sqrt(variance > 0 ? variance : 0);
    auto const cuts = magnitude(mean) < bound && bound < of.largest;
    return finite_or_nan(static_cast<A>(cuts ? bound : of.largest));
  }

  /// Enlarged by more than the rounding errors of the inverse and the product: the scale itself always becomes 1.
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
  PITH_HD A value(std::uint32_t symbol, A scale) const {
    return qsgd().value(symbol, scale);
  }
  /// The integer to sum in flight.
  PITH_HD std::int32_t level(std::uint32_t symbol) const { return static_cast<std::int32_t>(symbol << 30) >> 30; }

 private:
  PITH_HD static constexpr qsgd_rule<2> qsgd() { return {1, norm::max}; }
};

}  // namespace detail

/// Rounds each element to -s, 0 or s at random so that the mean is the element. s is the bucket's largest magnitude.
/// With clipping, s is at most sigma standard deviations, and larger elements become s.
///
///   emits       n symbols of 2 bits, two's complement; side information: s per bucket. trits(s) packs five into a byte
///   requires    sigma >= 0 (2.5; 0 does not clip); a bucket of 0 (the whole tensor, the default) or a multiple of 8
///   complexity  16 random bits per element
///   on NaN      a bucket that holds NaN or infinity decodes to NaN
///   properties  terngrad<outliers::kept>: unbiased up to 2^-16 of s, omega = (sqrt(b) - 1) / 2 + 2^-16 for b elements
///               per bucket; damped(s) for feedback. Else unbiased for the clipped gradient, without a bound for x.
///               reproducible; in double only if sums are compiled without contraction, as squares are inexact
///   reference   Wen, Xu, Yan, Wu, Wang, Chen and Li, TernGrad, NeurIPS 2017; here nothing is clipped if the mean is
///               beyond the bound, so that equal elements are exact
template <outliers Which = outliers::cut>
class terngrad : public scalar_quantizer<detail::terngrad_rule> {
 public:
  static constexpr bool is_ternary = true;

  explicit terngrad(double sigma = 2.5, std::uint64_t bucket = 0) : scalar_quantizer({sigma}, bucket, "terngrad") {
    detail::require(sigma >= 0 && is_finite(sigma), "terngrad: sigma must be finite and at least 0, got ", sigma);
  }

  std::string name() const {
    if (bucket() != 0) return detail::text("terngrad(", detail::shortest(rule().sigma), ",", bucket(), ")");
    return rule().sigma == 2.5 ? "terngrad" : detail::text("terngrad(", detail::shortest(rule().sigma), ")");
  }
};

template <>
class terngrad<outliers::kept> : public scalar_quantizer<detail::terngrad_rule> {
 public:
  static constexpr bool is_ternary = true;

  explicit terngrad(std::uint64_t bucket = 0) : scalar_quantizer({0}, bucket, "terngrad") {}

  std::string name() const { return bucket() == 0 ? "terngrad(0)" : detail::text("terngrad(0,", bucket(), ")"); }
  double omega(shape const& dims) const {
    return dims.n == 0 ? 0 : (std::sqrt(static_cast<double>(bucket_of(dims.n))) - 1) / 2 + 0x1p-16;
  }
};

static_assert(stage<terngrad<>, float, archetype> && !unbiased<terngrad<>> && !contractive<terngrad<>>);
static_assert(stage<terngrad<outliers::kept>, float, archetype> && unbiased<terngrad<outliers::kept>>);

}  // namespace pith::inline v0
