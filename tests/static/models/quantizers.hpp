// tests/static/models/quantizers.hpp — the survey's quantizers that pith does not have.
#pragma once

#include "declared.hpp"

namespace models {

/// CGX: Bits bits between the least and the largest of a bucket, up or down at random or to the nearest.
template <int Bits, bool Stochastic>
struct max_min_rule {
  static constexpr int bits = Bits;
  static constexpr bool draws = Stochastic;

  struct range {
    double least, most;
  };
  template <class A>
  struct grid {
    A least, unit;
  };

  template <class A>
  PITH_HD range measure(A x) const {
    return {static_cast<double>(x), static_cast<double>(x)};
  }
  PITH_HD range merge(range a, range b) const {
    return {-pith::detail::larger{}(-a.least, -b.least), pith::detail::larger{}(a.most, b.most)};
  }
  template <class A>
  PITH_HD grid<A> finish(range r, std::uint64_t, A) const {
    return {static_cast<A>(r.least), pith::finite_or_nan(static_cast<A>((r.most - r.least) / ((1 << Bits) - 1)))};
  }
  template <class A>
  PITH_HD std::uint32_t code(A x, grid<A> g, std::uint16_t random) const {
    auto const step = (x - g.least) / g.unit + (Stochastic ? static_cast<A>(random) / 65536 : static_cast<A>(0.5));
    return step > 0 ? (step < (1 << Bits) ? static_cast<std::uint32_t>(step) : (1u << Bits) - 1) : 0;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, grid<A> g) const {
    return g.least + static_cast<A>(symbol) * g.unit;
  }
};

/// The bound of both kinds: a bucket of b elements is off by at most b (unit / 2)^2 <= b / (2^Bits - 1)^2 max |x|^2.
template <int Bits>
constexpr double max_min_error(std::uint64_t bucket) {
  return static_cast<double>(bucket) / ((1 << Bits) - 1) / ((1 << Bits) - 1);
}

template <int Bits>
struct max_min : pith::scalar_quantizer<max_min_rule<Bits, false>> {
  using facets = pith::ext::facets<pith::ext::contractive>;

  explicit max_min(std::uint64_t bucket = 128) : pith::scalar_quantizer<max_min_rule<Bits, false>>({}, bucket) {}
  std::string name() const { return "max_min"; }
  double delta(shape const& dims) const { return 1 - max_min_error<Bits>(this->bucket_of(dims.n)); }
};

template <int Bits>
struct stochastic_max_min : pith::scalar_quantizer<max_min_rule<Bits, true>> {
  using facets = pith::ext::facets<pith::ext::unbiased>;

  explicit stochastic_max_min(std::uint64_t bucket = 128)
      : pith::scalar_quantizer<max_min_rule<Bits, true>>({}, bucket) {}
  std::string name() const { return "stochastic_max_min"; }
  double omega(shape const& dims) const { return max_min_error<Bits>(this->bucket_of(dims.n)); }
};

/// A tile transform: orthogonal, so it is lossless and preserves the norm of later errors.
struct hadamard : declared_random {
  using facets = pith::ext::facets<pith::ext::unbiased, pith::ext::contractive>;

  template <class In>
  using output = In;

  static constexpr pith::codec_traits traits = {.projection = true, .rotation = true};

  double omega(shape const&) const { return 0; }
  double delta(shape const&) const { return 1; }
};

}  // namespace models
