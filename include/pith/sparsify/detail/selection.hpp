// pith/sparsify/detail/selection.hpp — what the programs of a selection share: its size, its memory, what it selects from.
#pragma once

#include <pith/codec/detail/source.hpp>
#include <pith/core/workspace.hpp>
#include <pith/sparsify/detail/digits.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace pith::inline v0::detail {

/// The values that a team has in fast memory at a time, and the values that it takes one after the other.
template <class A>
inline constexpr std::uint32_t select_span = 8192 / sizeof(A);
inline constexpr std::uint32_t spans_in_part = 4;
template <class A>
inline constexpr std::uint32_t select_part = spans_in_part* select_span<A>;

/// A line of memory that is sampled.
inline constexpr std::uint32_t sampled_line = 16;

/// What the host decides, from the number of elements and of those kept alone.
struct selection_size {
  std::uint64_t n, k;
  std::uint32_t samples = 0;  ///< none: selects from all
  std::uint32_t rank = 0;     ///< of the lower bound in the sample
  std::uint64_t room = 0;     ///< for candidates

  /// A sample gives a lower bound of the k-th largest when few are kept of many. In the mean samples * k / n of it are
  /// among the k largest; four standard deviations more are not, once in some ten thousand times. For few there is room
  /// for k that are not zero and k zeros besides.
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

/// What is decided while it runs; zeros at first.
template <class Key>
struct selection_state {
  Key bound;               ///< of candidates
  Key prefix;              ///< the digits of the k-th largest key that are known; all of them in the end
  std::uint32_t rank;      ///< of the k-th largest among the keys that begin so; in the end, how many equals are kept
  std::uint32_t found;     ///< candidates
  std::uint32_t complete;  ///< there are k candidates and all had room
  std::uint32_t in_order;  ///< they lie in order
  std::uint32_t arrived;   ///< blocks of the program that runs
  std::uint32_t bins[digits<Key>::rounds][digit_bins];
};

/// The candidates of a span: where they were put, and where they go when in order.
struct span_note {
  std::uint32_t first, count, place;
};

template <class A>
struct candidates {
  std::uint32_t* index;
  A* value;
  A* old;
};

/// How many of a part lie above the k-th largest and how many equal it; then, how many do before the part.
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

  /// Whether the elements of a span were left while candidates were looked for.
  PITH_HD bool was_left(std::uint64_t span) const {
    if (room == 0) return false;
    auto const note = notes[span];
    return static_cast<std::uint64_t>(note.first) + note.count <= room;
  }
};

/// The values of a span of the source: where they are, or loaded into `p`.
template <class Source, class A, team Team>
PITH_HD A const* source_values(Source const& from, Team const& team, std::uint64_t first, std::uint32_t count, A* p) {
  if (count == select_span<A>) return from.load(team, first, constant<select_span<A>>(), p);
  return from.load(team, first, count, p);
}

/// The values of a span of what is selected from. Those that were left are put together from what is kept and, where
/// that is not the value, from the candidates.
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

/// What was kept of these values before they were left.
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
