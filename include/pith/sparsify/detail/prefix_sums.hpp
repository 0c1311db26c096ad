// pith/sparsify/detail/prefix_sums.hpp — prefix sums of counts, computed by one team.
#pragma once

#include <pith/core/team.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The number of parts into which a list of counts is divided. The parts are summed in parallel.
inline constexpr std::uint32_t sum_parts = 256;

struct prefix_memory {
  fast_array<std::uint32_t, sum_parts> sums, spare;
};

/// The number of counts in a part of a list of n counts.
PITH_HD constexpr std::uint32_t part_size(std::uint32_t n) { return (n + sum_parts - 1) / sum_parts; }

/// Returns an array in which element j is the sum of all counts in parts 0 .. j.
template <team Team, class Count>
PITH_HD std::uint32_t const* sum_in_parts(Team const& team, prefix_memory& fast, std::uint32_t n, Count const& count) {
  auto* from = fast.sums.data();
  auto* to = fast.spare.data();
  auto const size = part_size(n);
  team.for_each(constant<sum_parts>(), [=](std::uint32_t j) {
    auto const first = j * size;
    auto const rest = first < n ? n - first : 0;
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < (rest < size ? rest : size); ++i) sum += count(first + i);
    from[j] = sum;
  });
  for (std::uint32_t step = 1; step < sum_parts; step *= 2) {
    team.for_each(constant<sum_parts>(), [=](std::uint32_t j) { to[j] = from[j] + (j < step ? 0 : from[j - step]); });
    auto* const done = to;
    to = from;
    from = done;
  }
  return from;
}

/// prefix_sums() for a team of one thread. It does not compute the sums of all parts first, which would take most of
/// the time of a short list.
template <class Count, class Wants, class Visit>
PITH_HD std::uint32_t prefix_sums_in_turn(std::uint32_t n, Count const& count, Wants const& wants, Visit const& visit) {
  auto const size = part_size(n);
  std::uint32_t before = 0;
  for (std::uint32_t first = 0; first < n; first += size) {
    auto const end = n - first < size ? n : first + size;
    auto through = before;
    for (auto i = first; i < end; ++i) through += count(i);
    if (wants(before, through)) {
      auto sum = before;
      for (auto i = first; i < end; ++i) {
        auto const own = count(i);
        visit(i, sum, own);
        sum += own;
      }
    }
    before = through;
  }
  return before;
}

/// Calls visit(i, before, own) for i < n, where own = count(i), and `before` is the sum of count(0) .. count(i - 1).
/// Skips a part of the list if wants(before, through) is false. In this call, `before` is the sum of all counts before
/// the part, and `through` is this sum plus the counts of the part. Returns the sum of all counts.
template <team Team, class Count, class Wants, class Visit>
PITH_HD std::uint32_t prefix_sums(Team const& team, prefix_memory& fast, std::uint32_t n, Count const& count,
                                  Wants const& wants, Visit const& visit) {
  if constexpr (!Team::by_octets) {
    return prefix_sums_in_turn(n, count, wants, visit);
  } else {
    auto const* const sums = sum_in_parts(team, fast, n, count);
    auto const all = sums[sum_parts - 1];  // read before the last loop, because callers may then overwrite the memory
    auto const size = part_size(n);
    team.for_each(constant<sum_parts>(), [=](std::uint32_t j) {
      auto before = j == 0 ? 0 : sums[j - 1];
      if (!wants(before, sums[j])) return;
      for (auto i = j * size; i < n && i < (j + 1) * size; ++i) {
        auto const own = count(i);
        visit(i, before, own);
        before += own;
      }
    });
    return all;
  }
}
template <team Team, class Count, class Visit>
PITH_HD std::uint32_t prefix_sums(Team const& team, prefix_memory& fast, std::uint32_t n, Count const& count,
                                  Visit const& visit) {
  return prefix_sums(
      team, fast, n, count, [](std::uint32_t, std::uint32_t) { return true; }, visit);
}

}}}  // namespace pith::PITH_ABI::detail
