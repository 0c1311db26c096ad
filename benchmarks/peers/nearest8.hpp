// benchmarks/peers/nearest8.hpp — a quantizer like quantize_per_tensor: multiples of the largest magnitude / 127.
#pragma once

#include <pith/quantize/scalar_quantizer.hpp>

#include <cstdint>
#include <string>

namespace bench {

struct nearest8_rule {
  using facets = pith::ext::facets<pith::ext::refined>;

  static constexpr int bits = 8;
  static constexpr bool draws = false;

  PITH_HD auto measure(auto x) const { return x < 0 ? -x : x; }
  PITH_HD auto merge(auto a, auto b) const { return pith::larger_or_nan(a, b); }
  template <class A>
  PITH_HD A finish(A largest, std::uint64_t, A) const {
    return pith::finite_or_nan(static_cast<A>(largest / 127));
  }
  template <class A>
  PITH_HD A refine(A unit) const {
    return pith::is_finite(1 / unit) ? 1 / unit : A{0};
  }
  template <class A>
  PITH_HD std::uint32_t code(A x, A inverse, std::uint16_t) const {
    return static_cast<std::uint32_t>(pith::nearest_integer(x * inverse, A{127})) & 255u;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, A unit) const {
    return static_cast<A>(static_cast<std::int32_t>(symbol << 24) >> 24) * unit;
  }
};

class nearest8 : public pith::scalar_quantizer<nearest8_rule> {
 public:
  nearest8() : scalar_quantizer({}, 0) {}

  std::string name() const { return "nearest8"; }
};

}  // namespace bench
