// pith/sparsify/prefix_sums.hpp — how much comes before each of many counts, by one team.
#pragma once

#include <pith/core/team.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// Counts are summed in so many parts, side by side.
inline constexpr std::uint32_t sum_parts = 256;

struct prefix_memory {
  fast_array<std::uint32_t, sum_parts> sums, spare;
};

/// sums[j] = sums[0] + ... + sums[j] for all parts.
template <team Team>
PITH_HD void accumulate_parts(Team const& team, prefix_memory& fast) {
  auto* from = fast.sums.data();
  auto* to = fast.spare.data();
  for (std::uint32_t step = 1; step < sum_parts; step *= 2) {
    team.for_each(constant<sum_parts>(), [=](std::uint32_t j) { to[j] = from[j] + (j < step ? 0 : from[j - step]); });
    auto* const done = to;
    to = from;
    from = done;
  }
  static_assert(sum_parts == 1u << 8, "an even number of steps ends in `sums`");
}

/// visit(i, before, own) for i < n, where own = count(i) and before is the sum of the counts before it; the total.
template <team Team, class Count, class Visit>
PITH_HD std::uint32_t prefix_sums(Team const& team, prefix_memory& fast, std::uint32_t n, Count const& count,
                                  Visit const& visit) {
  auto* const sums = fast.sums.data();
  auto const size = (n + sum_parts - 1) / sum_parts;
  team.for_each(constant<sum_parts>(), [=](std::uint32_t j) {
    std::uint32_t sum = 0;
    for (auto i = j * size; i < n && i < (j + 1) * size; ++i) sum += count(i);
    sums[j] = sum;
  });
  accumulate_parts(team, fast);
  team.for_each(constant<sum_parts>(), [=](std::uint32_t j) {
    auto before = j == 0 ? 0 : sums[j - 1];
    for (auto i = j * size; i < n && i < (j + 1) * size; ++i) {
      auto const own = count(i);
      visit(i, before, own);
      before += own;
    }
  });
  return sums[sum_parts - 1];
}

}  // namespace pith::inline v0::detail
