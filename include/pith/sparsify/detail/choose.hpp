// pith/sparsify/detail/choose.hpp — selection of a span's values, given the least selected key (magnitude_bits).
#pragma once

#include <pith/sparsify/detail/selection.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

template <class A>
struct choice_memory {
  fast_array<std::uint32_t, select_span<A> + kept_slack> list, fewer;
  std::uint32_t cut;
};

/// The indices of the values that are selected from a span, in ascending order. `equal` is the number of selected
/// values whose key equals the least selected key.
struct choice {
  std::uint32_t const* list;
  std::uint32_t count, equal;
};

/// Selects the values whose key is above `least`, and the first `equals` values whose key equals `least`.
template <team Team, class A>
PITH_HD choice choose(Team const& team, choice_memory<A>& fast, A const* p, std::uint32_t count, bits_of<A> least,
                      std::uint32_t equals) {
  auto* const list = fast.list.data();
  auto const kept = team.filter_magnitude(p, count, equals == 0 ? least + 1 : least, list);
  if (equals == 0) return {list, kept, 0};
  auto const is_equal = [=](std::uint32_t j) { return magnitude_bits(p[list[j]]) == least; };
  auto const equal = team.count(kept, is_equal);
  if (equal <= equals) return {list, kept, equal};
  auto* const cut = &fast.cut;
  team.compact(kept, is_equal, [=](std::uint32_t j, std::uint32_t place) {
    if (place == equals) *cut = j;
  });
  auto const last = *cut;
  auto* const fewer = fast.fewer.data();
  team.compact(
      kept, [=](std::uint32_t j) { return j < last || !is_equal(j); },
      [=](std::uint32_t j, std::uint32_t place) { fewer[place] = list[j]; });
  return {fewer, kept - (equal - equals), equals};
}

}}}  // namespace pith::PITH_ABI::detail
