// pith/lowrank/detail/normalize.hpp — powers of two that bring the largest magnitude of a column close to 1.
#pragma once

#include <pith/core/detail/elementary.hpp>
#include <pith/core/detail/summation.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A column of a thin row-major matrix.
template <class A>
struct thin_column {
  A* first;
  std::uint64_t rows, pitch;

  PITH_HD A& operator[](std::uint64_t row) const { return first[row * pitch]; }
};

/// Sets largest[0] to the largest magnitude in the column, or to NaN if the column contains NaN. `largest` has space
/// for 256 values.
template <class Team, class A>
PITH_HD void largest_in_column(Team const& team, double* largest, thin_column<A> const& column) {
  constexpr std::uint32_t lanes = 256;
  auto const own = column;
  team.for_each(constant<lanes>(), [=](std::uint32_t i) {
    largest[i] = 0;
    for (std::uint64_t row = i; row < own.rows; row += lanes) {
      largest[i] = larger()(largest[i], static_cast<double>(magnitude(own[row])));
    }
  });
  merge_lanes(team, largest, constant<lanes>(), larger());
}

/// Returns 1 if `largest` is in [2^-30, 2^30), so that usual columns stay unchanged. Otherwise returns a power of two
/// whose product with `largest` is near 1. A product with a power of two is exact, so the columns of P = M Q keep their
/// directions, and orth(P) does not change in any bit.
PITH_HD inline double normalizing_power(double largest) {
  auto const exponent = static_cast<std::int32_t>(bits_as<std::uint64_t>(largest) >> 52) - 1023;
  if (-30 <= exponent && exponent < 30) return 1;
  return power_of_two(-least(most(exponent, -1000), 1000));
}

}}}  // namespace pith::PITH_ABI::detail
