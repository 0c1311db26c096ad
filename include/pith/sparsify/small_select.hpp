// pith/sparsify/small_select.hpp — the k largest of what one block holds.
#pragma once

#include <pith/sparsify/choose.hpp>
#include <pith/sparsify/selection.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// So few values are ranked one against all.
inline constexpr std::uint32_t few = 32;

template <class Source, class Out>
struct select_in_block {
  using A = decltype(std::declval<Source const&>()(0));
  using key = bits_of<A>;
  struct memory {
    fast_array<A, select_span<A>> p;
    choice_memory<A> choice;
  };

  Source from;
  picks<Out> to;
  std::uint32_t n, k;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto const* const p = source_values(from, team, 0, n, fast.p.data());
    auto const kept = n <= few ? rank(team, fast.choice, p) : bisect(team, fast.choice, p);
    auto const out = to;
    auto const source = from;
    team.for_each(k, [=](std::uint32_t j) {
      auto const i = kept[j];
      out.indices[j] = i;
      out.values[j] = element_cast<Out>(p[i]);
      if constexpr (keeping_source<Source>) out.old[j] = source.kept(i);
    });
    if constexpr (keeping_source<Source>) from.leave(team, 0, n, p);
  }

 private:
  /// Those that fewer than k come before.
  template <class Team>
  PITH_HD std::uint32_t const* rank(Team const& team, choice_memory<A>& fast, A const* p) const {
    auto* const list = fast.list.data();
    auto const count = n, most = k;
    team.compact(
        count,
        [=](std::uint32_t i) {
          auto const own = magnitude_bits(p[i]);
          std::uint32_t before = 0;
          for (std::uint32_t j = 0; j < count; ++j) {
            auto const other = magnitude_bits(p[j]);
            before += other > own || (other == own && j < i) ? 1 : 0;
          }
          return before < most;
        },
        [=](std::uint32_t i, std::uint32_t place) { list[place] = i; });
    return list;
  }

  /// The largest bound that k values reach, bit by bit, until it is exactly k.
  template <class Team>
  PITH_HD std::uint32_t const* bisect(Team const& team, choice_memory<A>& fast, A const* p) const {
    key least = 0;
    auto reach = n;
    for (auto bit = key{1} << (digits<key>::bits - 1); bit > 0 && reach > k; bit >>= 1) {
      auto const higher = static_cast<key>(least | bit);
      auto const count = team.count(n, [=](std::uint32_t i) { return magnitude_bits(p[i]) >= higher; });
      if (count < k) continue;
      least = higher;
      reach = count;
    }
    auto const bound = least;
    auto const above = reach == k ? 0 : team.count(n, [=](std::uint32_t i) { return magnitude_bits(p[i]) > bound; });
    return choose(team, fast, p, n, least, k - above).list;
  }
};

}  // namespace pith::inline v0::detail
