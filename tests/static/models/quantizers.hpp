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
  explicit max_min(std::uint64_t bucket = 128) : pith::scalar_quantizer<max_min_rule<Bits, false>>({}, bucket) {}
  std::string name() const { return "max_min"; }
  double delta(shape const& dims) const { return 1 - max_min_error<Bits>(this->bucket_of(dims.n)); }
};

template <int Bits>
struct stochastic_max_min : pith::scalar_quantizer<max_min_rule<Bits, true>> {
  explicit stochastic_max_min(std::uint64_t bucket = 128)
      : pith::scalar_quantizer<max_min_rule<Bits, true>>({}, bucket) {}
  std::string name() const { return "stochastic_max_min"; }
  double omega(shape const& dims) const { return max_min_error<Bits>(this->bucket_of(dims.n)); }
};

/// 1-bit SGD: the means of the negative and of the other elements of a bucket.
struct one_bit_rule {
  static constexpr int bits = 1;
  static constexpr bool draws = false;

  struct sums {
    double below, above, n_below, n_above;
  };
  template <class A>
  struct means {
    A of[2];
  };

  template <class A>
  PITH_HD sums measure(A x) const {
    return x < 0 ? sums{static_cast<double>(x), 0, 1, 0} : sums{0, static_cast<double>(x), 0, 1};
  }
  PITH_HD sums merge(sums a, sums b) const {
    return {a.below + b.below, a.above + b.above, a.n_below + b.n_below, a.n_above + b.n_above};
  }
  template <class A>
  PITH_HD means<A> finish(sums s, std::uint64_t, A) const {
    return {{static_cast<A>(s.n_above > 0 ? s.above / s.n_above : 0),
             static_cast<A>(s.n_below > 0 ? s.below / s.n_below : 0)}};
  }
  template <class A>
  PITH_HD std::uint32_t code(A x, means<A>, std::uint16_t) const {
    return x < 0;
  }
  template <class A>
  PITH_HD A value(std::uint32_t symbol, means<A> m) const {
    return m.of[symbol];
  }
};

/// delta = sum of n_s mean_s^2 / |x|^2 >= 1 / bucket, as for scaled_sign.
struct one_bit : pith::scalar_quantizer<one_bit_rule> {
  static constexpr bool is_projection = true;

  explicit one_bit(std::uint64_t bucket = 0) : scalar_quantizer({}, bucket) {}
  std::string name() const { return "one_bit"; }
  double delta(shape const& dims) const { return 1 / static_cast<double>(bucket_of(dims.n)); }
};

/// TernGrad without clipping is QSGD of one level of the maximum.
inline pith::qsgd<2> tern_grad() { return pith::qsgd<2>(1, 0, pith::norm::max); }

/// Natural compression: sign and exponent. It needs no scale, and the engine would send one.
struct natural : declared_random {
  template <class In>
  using output = pith::packed<9>;

  double omega(shape const&) const { return 1.0 / 8; }
};

/// A tile transform: orthogonal, so that nothing is lost, and what is lost behind it keeps its size.
struct hadamard : declared_random {
  template <class In>
  using output = In;

  static constexpr bool is_projection = true;
  static constexpr bool is_isometric = true;

  double omega(shape const&) const { return 0; }
  double delta(shape const&) const { return 1; }
};

}  // namespace models
