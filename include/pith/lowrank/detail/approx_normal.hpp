// pith/lowrank/detail/approx_normal.hpp — approximately normal random numbers, and thin matrices of such numbers.
#pragma once

#include <pith/core/draws.hpp>
#include <pith/core/element.hpp>
#include <pith/lowrank/detail/normalize.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Makes approximately normal numbers with mean 0 and variance 1. Each number is the normalized sum of eight uniform
/// integers. The sum is exact, so the numbers are bitwise equal on every machine.
template <class A>
struct approx_normal {
  /// Normalizes the sum of eight uniform draws from 0 .. 65535: subtracts the mean and divides by the standard
  /// deviation. The sum, the mean and the standard deviation are doubled, so that the difference is an integer.
  PITH_HD static A of(std::int32_t sum) {
    return static_cast<A>(2 * sum - 8 * 65535) * static_cast<A>(0x1.3988e1409212ep-17);  // 1 / (2 65536 sqrt(8 / 12))
  }
  PITH_HD static A at(draws const& random, std::uint64_t i) {
    auto const block = random(i);
    std::int32_t sum = 0;
    for (unsigned lane = 0; lane < 8; ++lane) sum += block.lane(lane);
    return of(sum);
  }
};

/// Sets to[i] to the i-th approximately normal number, for each i < n.
template <class A>
struct draw_bell {
  static constexpr std::uint32_t span = 512;
  using memory = fast_array<std::uint16_t, 8 * span>;
  draws random;
  A* to;
  std::uint64_t n;

  PITH_HD std::uint64_t blocks() const { return (n + span - 1) / span; }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * span;
    auto const count = static_cast<std::uint32_t>(n - first < span ? n - first : span);
    auto* const random_bits = fast.data();
    auto* const out = to + first;
    team.random(random, first, count, random_bits);
    team.for_each(count, [=](std::uint32_t i) {
      std::int32_t sum = 0;
      for (std::uint32_t lane = 0; lane < 8; ++lane) sum += random_bits[8 * i + lane];
      out[i] = approx_normal<A>::of(sum);
    });
  }
};

/// Replaces column c of Q with random numbers if the column is zero or contains NaN or infinity. Otherwise multiplies
/// the column by the power of two that `normalizing_power` returns.
template <class A>
struct renew_column {
  static constexpr std::uint32_t lanes = 256;
  using memory = fast_array<double, lanes>;
  draws random;
  A* q;
  std::uint64_t columns, rank;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t c) const {
    auto* const largest = fast.data();
    auto const self = *this;
    largest_in_column(team, largest, thin_column<A>{q + c, columns, rank});
    team.for_each(constant<lanes>(), [=](std::uint32_t i) {
      auto const is_valid = *largest > 0 && is_finite(*largest);
      auto const times = normalizing_power(*largest);
      for (std::uint64_t j = i; j < self.columns; j += lanes) {
        auto& value = self.q[j * self.rank + c];
        if (!is_valid) value = approx_normal<A>::at(self.random, j * self.rank + c);
        if (is_valid && times != 1) value = static_cast<A>(times * static_cast<double>(value));
      }
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
