// pith/sparsify/detail/selection.hpp — the shared data of a selection's programs: sizes, memory, input.
#pragma once

#include <pith/core/workspace.hpp>
#include <pith/ext/source.hpp>
#include <pith/sparsify/detail/digits.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace pith::inline v0::detail {

/// The number of values that a team holds in block-local memory at once, and of those that it processes in sequence.
template <class A>
inline constexpr std::uint32_t select_span = 8192 / sizeof(A);
inline constexpr std::uint32_t spans_in_part = 4;
template <class A>
inline constexpr std::uint32_t select_part = spans_in_part* select_span<A>;

/// The number of values in a sampled cache line.
inline constexpr std::uint32_t sampled_line = 16;

/// The sizes that the host chooses, from n and k alone.
struct selection_size {
  std::uint64_t n, k;
  std::uint32_t samples = 0;  ///< 0: select from all values
  std::uint32_t rank = 0;     ///< of the lower bound in the sample
  std::uint64_t room = 0;     ///< capacity for candidates

  /// A sample gives a lower bound of the k-th largest value if k is small against n. On average samples * k / n of the
  /// sample are among the k largest; the rank adds four standard deviations, so that the bound fails once in some ten
  /// thousand times. For small k the capacity suffices for k nonzero values and k zeros.
  static selection_size of(std::uint64_t n, std::uint64_t k) {
    if (n < 16384 || k > n / 4) return {n, k};
    auto const samples = std::clamp<std::uint64_t>(n / 256 / sampled_line * sampled_line, 4096, 16384);
    auto const share = static_cast<double>(samples) / static_cast<double>(n);
    auto const rank = std::floor(share * static_cast<double>(k) + 4 * std::sqrt(share * static_cast<double>(k)) + 2);
    auto const most = static_cast<std::uint64_t>(std::ceil((rank + 4 * std::sqrt(rank) + 4) / share));
    auto const room = k <= n / 32 ? std::max(most, 2 * k + select_span<float>) : most;
    return {n, k, static_cast<std::uint32_t>(samples), static_cast<std::uint32_t>(rank), room};
  }

  std::uint32_t spans(std::uint32_t span) const { return static_cast<std::uint32_t>((n + span - 1) / span); }
};

/// The state of a selection; zeros at first.
template <class Key>
struct selection_state {
  Key bound;               ///< of candidates
  Key prefix;              ///< the known digits of the k-th largest key; all of them in the end
  std::uint32_t rank;      ///< of the k-th largest among keys with this prefix; in the end, the equal keys to select
  std::uint32_t found;     ///< the number of candidates
  std::uint32_t complete;  ///< at least k candidates were found and all fitted
  std::uint32_t in_order;  ///< they are in order
  std::uint32_t arrived;   ///< finished blocks of the current program
  std::uint32_t bins[digits<Key>::rounds][digit_bins];
};

/// The candidates of a span: their place as collected, and their place in order.
struct span_note {
  std::uint32_t first, count, place;
};

template <class A>
struct candidates {
  std::uint32_t* index;
  A* value;
  A* old;
};

/// The number of a part's keys above the k-th largest and equal to it; later, the prefix sums of both.
struct part_note {
  std::uint32_t above, equal;
};

template <class Source>
struct selection {
  using A = decltype(std::declval<Source const&>()(0));
  using key = bits_of<A>;

  Source from;
  std::uint64_t n;
  std::uint32_t k, room;
  selection_state<key>* state = nullptr;
  part_note* parts = nullptr;
  span_note* notes = nullptr;
  candidates<A> found = {}, ordered = {};

  PITH_HD bool from_candidates() const { return room > 0 && state->complete != 0; }
  PITH_HD std::uint64_t size() const { return from_candidates() ? state->found : n; }
  PITH_HD candidates<A> chosen() const { return state->in_order != 0 ? found : ordered; }

  /// Whether the values of a span were already written back while candidates were collected.
  PITH_HD bool was_left(std::uint64_t span) const {
    if (room == 0) return false;
    auto const note = notes[span];
    return static_cast<std::uint64_t>(note.first) + note.count <= room;
  }
};

/// The values of a span of the source: a pointer into the tensor, or loaded into `p`.
template <class Source, class A, team Team>
PITH_HD A const* source_values(Source const& from, Team const& team, std::uint64_t first, std::uint32_t count, A* p) {
  if (count == select_span<A>) return from.load(team, first, constant<select_span<A>>(), p);
  return from.load(team, first, count, p);
}

/// The values of a span of the selection's input. If the span was already written back, they are rebuilt from the
/// residual and, where the two differ, from the candidates.
template <class Source, class A, team Team>
PITH_HD A const* selection_values(selection<Source> const& of, Team const& team, std::uint64_t first,
                                  std::uint32_t count, A* p) {
  if (of.from_candidates()) return of.chosen().value + first;
  if constexpr (keeping_source<Source>) {
    if (of.was_left(first / select_span<A>)) {
      auto const from = of.from;
      auto const note = of.notes[first / select_span<A>];
      auto const found = of.found;
      team.for_each(count, [=](std::uint32_t i) { p[i] = from.kept(first + i); });
      team.for_each(note.count,
                    [=](std::uint32_t j) { p[found.index[note.first + j] - first] = found.value[note.first + j]; });
      return p;
    }
  }
  return source_values(of.from, team, first, count, p);
}

/// The previous residuals of these values, before they were written back.
template <class Source, class A, team Team>
PITH_HD void selection_olds(selection<Source> const& of, Team const& team, std::uint64_t first, std::uint32_t count,
                            A const* p, A* old) {
  auto const from = of.from;
  auto const found = of.found;
  if (of.from_candidates()) {
    auto const* const known = of.chosen().old + first;
    team.for_each(count, [=](std::uint32_t i) { old[i] = known[i]; });
  } else if (of.was_left(first / select_span<A>)) {
    auto const note = of.notes[first / select_span<A>];
    team.for_each(count, [=](std::uint32_t i) { old[i] = from.without(first + i, p[i]); });
    team.for_each(note.count,
                  [=](std::uint32_t j) { old[found.index[note.first + j] - first] = found.old[note.first + j]; });
  } else {
    team.for_each(count, [=](std::uint32_t i) { old[i] = from.kept(first + i); });
  }
}

}  // namespace pith::inline v0::detail
