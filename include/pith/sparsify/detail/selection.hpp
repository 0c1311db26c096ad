// pith/sparsify/detail/selection.hpp — the data that all kernels of a selection share: sizes, memory, input.
#pragma once

#include <pith/core/source.hpp>
#include <pith/core/workspace.hpp>
#include <pith/sparsify/detail/digits.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A span is a run of `select_span` values, which fit into block-local memory. A part is a run of `select_part` values,
/// or of selection::part() values on a device. A team processes the spans of a part one after another.
template <class A>
inline constexpr std::uint32_t select_span = 8192 / sizeof(A);
inline constexpr std::uint32_t spans_in_part = 4;
template <class A>
inline constexpr std::uint32_t select_part = spans_in_part * select_span<A>;

/// The largest number of blocks of a pass on a device: about four for each multiprocessor.
inline constexpr std::uint32_t max_pass_blocks = 512;
/// The largest number of spans per block of a pass over all values, if there are fewer blocks than max_pass_blocks.
inline constexpr std::uint32_t max_pass_spans = 16;

/// True for the team of a device, which has the function `filter_to_slots` (exec/detail/cuda_team.cuh).
template <class Team>
concept places_at_least = requires {
  Team::nowhere;
};

/// The number of values whose candidates are collected at once, and have one note. A device collects the candidates of
/// `select_part` values, so that a block has fewer barriers per value.
template <class A, class Team>
inline constexpr std::uint32_t collected_by = places_at_least<Team> ? select_part<A> : select_span<A>;
template <class A, class Space>
inline constexpr std::uint32_t collected_on = std::same_as<Space, host_space> ? select_span<A> : select_part<A>;

/// The number of values in a sampled cache line.
inline constexpr std::uint32_t sampled_line = 16;

/// The sizes of a selection, which the host computes from n and k.
struct selection_size {
  std::uint64_t n, k;
  std::uint32_t samples = 0;  ///< 0 means that all values are candidates
  std::uint32_t rank = 0;     ///< the rank of the candidates' lower bound among the sampled keys
  std::uint64_t room = 0;     ///< the largest number of candidates that fit into the buffer

  /// Returns the sizes for n and k. If k is small compared with n, a sample gives a lower bound of the k-th largest
  /// key. On average, m = samples * k / n sampled keys are among the k largest keys. The bound is the sampled key with
  /// rank m + 4 sqrt(m) + 2. This rank is about four standard deviations above m, so the bound exceeds the k-th largest
  /// key about once in ten thousand cases. If k is at most n / 32, `room` is at least 2 k. So the candidates fit if
  /// they are k nonzero values and k zeros.
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
  /// The number of blocks of a pass on a device. Each block costs time, even if it has no values. So a pass has one block
  /// per span of a full buffer of candidates, unless a pass over all values would then take long.
  std::uint32_t pass_blocks(std::uint32_t span) const {
    auto const of_all = ext::blocks_for(n, span), least = ext::blocks_for(of_all, max_pass_spans);
    auto const blocks = samples > 0 ? std::max(ext::blocks_for(room, span), least) : of_all;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, max_pass_blocks));
  }
};

/// The state of a selection. Initially all members are zero.
template <class Key>
struct selection_state {
  Key bound;               ///< the least key of a candidate
  Key prefix;              ///< the known digits of the k-th largest key; at the end, all digits
  std::uint32_t rank;      ///< this key's rank among keys with this prefix; at the end, how many equal keys to select
  std::uint32_t found;     ///< the number of candidates
  std::uint32_t complete;  ///< true if at least k candidates were found and all candidates fit into the buffer
  std::uint32_t in_order;  ///< true if the candidates are in the order of indices
  std::uint32_t arrived;   ///< the number of finished blocks of the current kernel
  std::uint32_t bins[digits<Key>::rounds][digit_bins];
};

/// The positions of the candidates that were collected at once. The `count` candidates begin at position `first` in the
/// order of collection, and at position `place` in the order of indices.
struct span_note {
  std::uint32_t first, count, place;
};

template <class A>
struct candidates {
  std::uint32_t* index;
  A* value;
  A* old;
};

/// Two counts for a part: keys above the k-th largest key, and keys equal to the k-th largest key. `place_kept`
/// replaces the counts by their prefix sums.
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
  std::uint32_t blocks = 1;  ///< the number of blocks of a pass over size() values
  selection_state<key>* state = nullptr;
  part_note* parts = nullptr;
  span_note* notes = nullptr;
  candidates<A> found = {}, ordered = {};

  PITH_HD bool from_candidates() const { return room > 0 && state->complete != 0; }
  PITH_HD std::uint64_t size() const { return from_candidates() ? state->found : n; }
  PITH_HD candidates<A> chosen() const { return state->in_order != 0 ? found : ordered; }

  /// The number of values that a block processes in a pass. On a device, the candidates are divided among all blocks,
  /// because a block of many spans would be slow.
  template <class Team>
  PITH_HD std::uint32_t part(Team const&) const {
    constexpr auto least = Team::by_octets ? 1u : spans_in_part;
    auto const spans = static_cast<std::uint32_t>(size() - 1) / select_span<A> + 1;
    auto const own = (spans - 1) / blocks + 1;
    return (own < least ? least : own) * select_span<A>;
  }

  /// Returns the note about the candidates of the span that contains value i.
  template <class Team>
  PITH_HD span_note note_of(Team const&, std::uint64_t i) const {
    return notes[i / collected_by<A, Team>];
  }

  /// True if collect_candidates already wrote value i to the residual.
  template <class Team>
  PITH_HD bool was_left(Team const& team, std::uint64_t i) const {
    if (room == 0) return false;
    auto const note = note_of(team, i);
    return static_cast<std::uint64_t>(note.first) + note.count <= room;
  }
};

/// Returns the source's values for a span. The result is a pointer into the tensor, or `p` if the values must be copied
/// or computed.
template <class Source, class A, team Team>
PITH_HD A const* source_values(Source const& from, Team const& team, std::uint64_t first, std::uint32_t count, A* p) {
  if (count == select_span<A>) return from.load(team, first, constant<select_span<A>>(), p);
  return from.load(team, first, count, p);
}

/// Copies the `collected` values of a span's candidates to the candidates' positions in the span.
template <class Source, class A, team Team>
PITH_HD void copy_found(selection<Source> const& of, Team const& team, std::uint64_t first, std::uint32_t count,
                        A const* collected, A* to) {
  auto const note = of.note_of(team, first);
  auto const* const index = of.found.index;
  team.for_each(note.count, [=](std::uint32_t j) {
    auto const i = index[note.first + j] - first;  // wraps to a huge number in an earlier span
    if (i < count) to[i] = collected[note.first + j];
  });
}

/// Returns a span of the values from which the selection is made: the candidates, or all values of the source. If
/// collect_candidates already wrote the values of the span to the residual, reads the values from the residual, and
/// reads the candidates among them from `found`. NaN and infinity are not in the residual, but they are candidates.
template <class Source, class A, team Team>
PITH_HD A const* selection_values(selection<Source> const& of, Team const& team, std::uint64_t first,
                                  std::uint32_t count, A* p) {
  if (of.from_candidates()) return of.chosen().value + first;
  if constexpr (Source::stores_residual) {
    if (of.was_left(team, first)) {
      auto const from = of.from;
      team.for_each(count, [=](std::uint32_t i) { p[i] = from.old_residual(first + i); });
      copy_found(of, team, first, count, of.found.value, p);
      return p;
    }
  }
  return source_values(of.from, team, first, count, p);
}

/// Returns the previous residuals of a span of the source, which are the residuals before the write-back.
template <class Source, class A, team Team>
PITH_HD A const* selection_olds(selection<Source> const& of, Team const& team, std::uint64_t first, std::uint32_t count,
                                A const* p, A* old) {
  auto const from = of.from;
  if (of.was_left(team, first)) {
    team.for_each(count, [=](std::uint32_t i) { old[i] = from.minus_gradient(first + i, p[i]); });
    copy_found(of, team, first, count, of.found.old, old);
  } else {
    team.for_each(count, [=](std::uint32_t i) { old[i] = from.old_residual(first + i); });
  }
  return old;
}

}}}  // namespace pith::PITH_ABI::detail
