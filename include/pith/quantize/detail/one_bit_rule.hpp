// pith/quantize/detail/one_bit_rule.hpp — the quantizer rule of one_bit, with two means per bucket.
#pragma once

#include <pith/config.hpp>
#include <pith/core/element.hpp>
#include <pith/quantize/detail/sign_symbols.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The rule of one_bit. A bucket has two means: the mean of its negative elements, whose symbol is 1, and the mean of
/// its other elements, whose symbol is 0. The mean of no elements is 0.
struct one_bit_rule : sign_symbols {
  using facets = ext::facets<ext::scaled, ext::members, ext::scale_free>;

  struct sums {
    double above, below, n_below;
  };
  static constexpr double sums::*members[] = {&sums::above, &sums::below, &sums::n_below};
  template <class A>
  struct means {
    A of[2];
  };

  template <class A>
  PITH_HD sums measure(A x) const {
    auto const v = static_cast<double>(x);
    auto const word = bits_as<std::uint64_t>(v), below = std::uint64_t{0} - static_cast<std::uint64_t>(v < 0);
    return {bits_as<double>(word & ~below), bits_as<double>(word & below),
            bits_as<double>(bits_as<std::uint64_t>(1.0) & below)};
  }
  PITH_HD sums merge(sums a, sums b) const { return {a.above + b.above, a.below + b.below, a.n_below + b.n_below}; }

  /// Returns the two means. If one mean is NaN or infinite, both means are NaN, so that the whole bucket decodes to
  /// NaN.
  template <class A>
  PITH_HD means<A> finish(sums s, std::uint64_t count, A) const {
    auto const above = mean<A>(s.above, static_cast<double>(count) - s.n_below), below = mean<A>(s.below, s.n_below);
    auto const spoilt = finite_or_nan(above) * 0 + finite_or_nan(below) * 0;
    return {{above + spoilt, below + spoilt}};
  }
  template <class A>
  PITH_HD means<A> scaled(means<A> m, A power) const {
    return {{m.of[0] * power, m.of[1] * power}};
  }
  /// Selects a mean with bit operations, because compilers sometimes translate a conditional expression to a branch
  /// instead of a vector instruction.
  template <class A>
  PITH_HD A value(std::uint32_t symbol, means<A> m) const {
    auto const above = bits_as<bits_of<A>>(m.of[0]), below = bits_as<bits_of<A>>(m.of[1]);
    return bits_as<A>(above ^ ((above ^ below) & (bits_of<A>{0} - symbol)));
  }

 private:
  template <class A>
  PITH_HD static A mean(double sum, double count) {
    return count == 0 ? A{0} : static_cast<A>(sum / count);
  }
};

/// The rule for the rows of a matrix. The symbols of a row may begin inside a byte. The pass that computes the means
/// therefore does not write symbols; `write_signs` writes all symbols.
struct one_bit_means : one_bit_rule {
  using facets = ext::facets<ext::scaled, ext::members>;
};

}}}  // namespace pith::PITH_ABI::detail
