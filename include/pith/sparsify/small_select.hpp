// pith/sparsify/small_select.hpp — the k largest of what one block holds.
#pragma once

#include <pith/sparsify/choose.hpp>
#include <pith/sparsify/selection.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// One block selects from so many spans: more programs would take longer to begin.
inline constexpr std::uint32_t block_spans = 8;

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
    if (n <= few) {
      auto const* const p = source_values(from, team, 0, n, fast.p.data());
      return emit(team, 0, n, 0, p, rank(team, fast.choice, p));
    }
    auto const found = bisect(team, fast);
    auto equals = found.equals;
    std::uint32_t place = 0;
    for (std::uint32_t first = 0; first < n; first += select_span<A>) {
      auto const count = n - first < select_span<A> ? n - first : select_span<A>;
      auto const* const p = source_values(from, team, first, count, fast.p.data());
      auto const kept = choose(team, fast.choice, p, count, found.least, equals);
      emit(team, first, count, place, p, kept);
      place += kept.count;
      equals -= kept.equal;
    }
  }

 private:
  struct bound {
    key least;
    std::uint32_t equals;
  };

  template <class Team>
  PITH_HD void emit(Team const& team, std::uint32_t first, std::uint32_t count, std::uint32_t place, A const* p,
                    choice const& kept) const {
    auto const out = to;
    auto const source = from;
    team.for_each(kept.count, [=](std::uint32_t j) {
      auto const i = kept.list[j];
      out.indices[place + j] = first + i;
      out.values[place + j] = element_cast<Out>(p[i]);
      if constexpr (keeping_source<Source>) out.old[place + j] = source.kept(first + i);
    });
    if constexpr (keeping_source<Source>) source.leave(team, first, count, p);
  }

  /// Those that fewer than k come before.
  template <class Team>
  PITH_HD choice rank(Team const& team, choice_memory<A>& fast, A const* p) const {
    auto* const list = fast.list.data();
    auto const count = n, most = k;
    auto const is_kept = [=](std::uint32_t i) {
      auto const own = magnitude_bits(p[i]);
      std::uint32_t before = 0;
      for (std::uint32_t j = 0; j < count; ++j) {
        auto const other = magnitude_bits(p[j]);
        before += other > own || (other == own && j < i) ? 1 : 0;
      }
      return before < most;
    };
    auto const kept = team.compact(count, is_kept, [=](std::uint32_t i, std::uint32_t place) { list[place] = i; });
    return {list, kept, 0};
  }

  /// The largest bound that k values reach, bit by bit, until it is exactly k.
  template <class Team>
  PITH_HD bound bisect(Team const& team, memory& fast) const {
    auto const* const all = n <= select_span<A> ? source_values(from, team, 0, n, fast.p.data()) : nullptr;
    key least = 0;
    auto reached = n;
    for (auto bit = key{1} << (digits<key>::bits - 1); bit > 0 && reached > k; bit >>= 1) {
      auto const count = reaching(team, fast, all, static_cast<key>(least | bit));
      if (count < k) continue;
      least |= bit;
      reached = count;
    }
    return {least, reached == k ? k : k - reaching(team, fast, all, least + 1)};
  }

  /// How many keys are at least `least`. `all` are the values where they fit in fast memory.
  template <class Team>
  PITH_HD std::uint32_t reaching(Team const& team, memory& fast, A const* all, key least) const {
    if (all != nullptr) return team.count(n, [=](std::uint32_t i) { return magnitude_bits(all[i]) >= least; });
    std::uint32_t sum = 0;
    for (std::uint32_t first = 0; first < n; first += select_span<A>) {
      auto const count = n - first < select_span<A> ? n - first : select_span<A>;
      auto const* const p = source_values(from, team, first, count, fast.p.data());
      sum += team.count(count, [=](std::uint32_t i) { return magnitude_bits(p[i]) >= least; });
    }
    return sum;
  }
};

}  // namespace pith::inline v0::detail
