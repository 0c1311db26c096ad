// pith/sparsify/detail/survivors.hpp — sums over all values that reach a bound, computed in one pass.
#pragma once

#include <pith/core/detail/elementary.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/sparsify/detail/selection.hpp>

#include <cmath>
#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Statistics of the values that reach a bound. A pass computes a list of terms (see below), and each term sets one
/// statistic. Statistics without a term are 0.
struct survivors {
  double count = 0, sum = 0, signed_sum = 0, squares = 0, logs = 0, smallest = 0, largest = 0, max_above = 0,
         max_below = 0;

  PITH_HD double mean() const { return sum / count; }
};

// The terms. `of` maps a value to a summand, the call operator merges two summands, and `put` stores the result. Values
// that do not reach the bound are replaced by `outside`, which does not change the sum. Sums of squares use 26 bits of
// each value, so that the products are exact.

struct how_many : plus {
  static constexpr double outside = 0;
  PITH_HD double of(double p) const { return p != 0 ? 1 : 0; }
  PITH_HD static void put(survivors& to, double value) { to.count = value; }
};
struct magnitude_sum : plus {
  static constexpr double outside = 0;
  PITH_HD double of(double p) const { return magnitude(p); }
  PITH_HD static void put(survivors& to, double value) { to.sum = value; }
};
struct value_sum : plus {
  static constexpr double outside = 0;
  PITH_HD double of(double p) const { return p; }
  PITH_HD static void put(survivors& to, double value) { to.signed_sum = value; }
};
struct square_sum : plus {
  static constexpr double outside = 0;
  PITH_HD double of(double p) const {
    auto const upper = bits_as<double>(bits_as<std::uint64_t>(p) >> 27 << 27);
    return upper * upper;
  }
  PITH_HD static void put(survivors& to, double value) { to.squares = value; }
};
struct log_sum : plus {
  static constexpr double outside = 1;
  PITH_HD double of(double p) const { return ln(magnitude(p)); }
  PITH_HD static void put(survivors& to, double value) { to.logs = value; }
};
struct min_magnitude {
  static constexpr double outside = INFINITY;
  PITH_HD double of(double p) const { return magnitude(p); }
  PITH_HD double operator()(double a, double b) const { return a < b ? a : b; }
  PITH_HD static void put(survivors& to, double value) { to.smallest = value; }
};
struct largest_magnitude {
  static constexpr double outside = 0;
  PITH_HD double of(double p) const { return magnitude(p); }
  PITH_HD double operator()(double a, double b) const { return a > b ? a : b; }
  PITH_HD static void put(survivors& to, double value) { to.largest = value; }
};

struct largest_above : largest_magnitude {
  PITH_HD double of(double p) const { return p > 0 ? p : 0; }
  PITH_HD static void put(survivors& to, double value) { to.max_above = value; }
};
struct largest_below : largest_magnitude {
  PITH_HD double of(double p) const { return p < 0 ? -p : 0; }
  PITH_HD static void put(survivors& to, double value) { to.max_below = value; }
};

template <class... Term>
struct terms {
  static constexpr std::uint32_t size = sizeof...(Term);
};

/// An integer above the bit pattern of any NaN's magnitude.
template <class A>
inline constexpr bits_of<A> beyond_bits = bits_of<A>{1} << (8 * sizeof(A) - 1);

template <class Source, class Term>
struct part_in_sum {
  using A = decltype(std::declval<Source const&>()(0));
  using key = bits_of<A>;

  Source from;
  key bound, end;
  std::uint64_t first;

  /// Returns the summand of value first + i. Uses masks, because a branch would often be mispredicted and would prevent
  /// vectorization.
  PITH_HD double operator()(std::uint32_t i) const {
    auto const p = from(first + i);
    auto const counts = key{0} - static_cast<key>(magnitude_bits(p) - bound < end - bound);
    auto const outside = bits_as<key>(static_cast<A>(Term::outside));
    return Term().of(static_cast<double>(bits_as<A>((bits_as<key>(p) & counts) | (outside & ~counts))));
  }
};

/// Sets partial[j tiles(n) + t] to the sum of term j over tile t. A sum includes only values whose magnitude_bits are
/// in [at.bits(), at.end()). If `at.is_over()`, the kernel does no work.
template <class Source, class At, class Terms>
struct sum_survivors;
template <class Source, class At, class... Term>
struct sum_survivors<Source, At, terms<Term...>> {
  static constexpr std::uint32_t items_per_block = tile;
  using memory = fast_array<double, tile_lanes>;

  Source from;
  std::uint64_t n;
  At at;
  double* partial;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    if (at.is_over()) return;
    auto* to = partial + t;
    ((sum<Term>(team, fast.data(), t * tile, to), to += tiles(n)), ...);
  }

 private:
  template <class T, class Team>
  PITH_HD void sum(Team const& team, double* lane, std::uint64_t first, double* to) const {
    reduce_tile(team, lane, block_size(n, first, tile), part_in_sum<Source, T>{from, at.bits(), at.end(), first}, T());
    team.for_each(1u, [=](std::uint32_t) { *to = lane[0]; });
  }
};

template <team Team, class... Term>
PITH_HD survivors join_survivors(Team const& team, double* lane, double* partial, std::uint64_t count, terms<Term...>) {
  auto all = survivors();
  ((reduce_values(team, lane, partial, count, Term()), Term::put(all, *partial), partial += count), ...);
  return all;
}

}}}  // namespace pith::PITH_ABI::detail
