// examples/own/nearest4.hpp — a quantizer to the nearest of 15 multiples of a bucket's largest magnitude / 7.
#pragma once

#include <pith/quantize/scalar_quantizer.hpp>

#include <algorithm>

struct nearest4_rule {
  using facets = pith::ext::facets<pith::ext::refined>;

  static constexpr int bits = 4;
  static constexpr bool draws = false;

  PITH_HD auto measure(auto x) const { return x < 0 ? -x : x; }
  PITH_HD auto merge(auto a, auto b) const { return pith::larger_or_nan(a, b); }
  template <class A>
  PITH_HD A finish(A largest, std::uint64_t, A) const {
    return pith::finite_or_nan(static_cast<A>(largest / 7));
  }
  template <class A>
  PITH_HD A refine(A unit) const {
    return pith::is_finite(1 / unit) ? 1 / unit : A{0};
  }
  template <class A>
  PITH_HD std::uint32_t code(A x, A inverse, std::uint16_t) const {
    return static_cast<std::uint32_t>(pith::nearest_integer(x * inverse, A{7})) & 15u;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A unit) const {
    return static_cast<A>(static_cast<std::int32_t>(symbol << 28) >> 28) * unit;
  }
};

class nearest4 : public pith::scalar_quantizer<nearest4_rule> {
 public:
  using facets = pith::ext::facets<pith::ext::contractive>;

  nearest4() : scalar_quantizer({}, 128) {}

  std::string name() const { return "nearest4"; }
  /// No error exceeds its element, and the largest element of a bucket has next to none, if 1 / unit is finite.
  double delta(pith::shape const& dims) const {
    return 0.99 / static_cast<double>(std::max<std::uint64_t>(bucket_of(dims.n), 1));
  }
};
static_assert(pith::stage<nearest4, float, pith::archetype> && pith::promises_of<nearest4>.contractive);
