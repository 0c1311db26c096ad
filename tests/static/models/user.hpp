// tests/static/models/user.hpp — what a user writes: a stage of their own, and a rule for the scalar quantizer.
#pragma once

#include "declared.hpp"

namespace models {

/// Limits every entry to [-bound, bound].
class clip : public pith::codec_base {
 public:
  template <class In>
  using output = In;

  explicit clip(float bound) : bound_(bound) {}
  std::string name() const { return "clip"; }

  template <executor E>
  void encode(context<float, E> const& cx, values_on<E, float const> x, encoded_on<E, float> y) const {
    cx.exec.for_each_index(cx.dims.n, limit{x.data, y.values.data, bound_});
  }
  template <executor E>
  void decode(context<float, E> const& cx, encoded_on<E, float const> y, values_on<E, float> x) const {
    cx.exec.copy(x.data, y.values.data, pith::value_bytes<float>(cx.dims.n));
  }

 private:
  struct limit {
    float const* x;
    float* y;
    float bound;
    PITH_HD void operator()(std::uint64_t i) const { y[i] = x[i] > bound ? bound : x[i] < -bound ? -bound : x[i]; }
  };
  float bound_;
};

/// Multiples of a fixed unit, to the nearest: there is no scale.
struct fixed_point_rule {
  static constexpr int bits = 8;
  static constexpr bool draws = false;

  float unit;

  PITH_HD std::uint32_t code(float x, pith::unscaled<float>, std::uint16_t) const {
    auto const level = x / unit + 128.5f;
    return level > 0 ? (level < 255 ? static_cast<std::uint32_t>(level) : 255) : 0;
  }
  PITH_HD float value(std::uint32_t symbol, pith::unscaled<float>) const {
    return (static_cast<float>(symbol) - 128) * unit;
  }
};

/// An absolute quantizer: |error| <= unit / 2 for |x| <= 127 units.
struct fixed_point : pith::scalar_quantizer<fixed_point_rule> {
  using facets = pith::ext::facets<pith::ext::bounded>;

  explicit fixed_point(float unit) : scalar_quantizer({unit}) {}
  std::string name() const { return "fixed_point"; }
  double error_bound(shape const&) const { return static_cast<double>(rule().unit) / 2; }
};

}  // namespace models
