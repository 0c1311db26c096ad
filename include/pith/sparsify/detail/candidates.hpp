// pith/sparsify/detail/candidates.hpp — the few values that may be among the k largest, collected in one pass.
#pragma once

#include <pith/sparsify/detail/selection.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Writes a sample of keys, which are the bit patterns of magnitudes. The source is divided into `samples` / 16 equal
/// intervals. From each interval, the sample contains one cache line of 16 values, at a pseudorandom position.
template <class Source>
struct sample_keys {
  using A = typename selection<Source>::A;
  static constexpr std::uint32_t items_per_block = 256;  // one per thread of a device
  struct memory {};

  selection<Source> of;
  bits_of<A>* keys;
  std::uint32_t samples;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = static_cast<std::uint32_t>(block) * items_per_block;
    auto const count = block_size(samples, first, items_per_block);
    auto const width = of.n / (samples / sampled_line);
    auto const from = of.from;
    auto* const to = keys + first;
    team.for_each_in(count, constant<sampled_line>(), [=](std::uint32_t j) {
      auto const stratum = first / sampled_line + j;
      auto const jitter = (static_cast<std::uint64_t>(stratum * 0x9E3779B1u) >> 16) * (width / sampled_line) >> 16;
      auto const begin = (stratum * width + jitter * sampled_line) / sampled_line * sampled_line;
      return [=](std::uint32_t i) { to[i] = magnitude_bits(from(begin + i % sampled_line)); };
    });
  }
};

/// Finds the lower bound of the candidates' keys. Let s be the sampled key at position `rank` in descending order,
/// where the largest key has position 1. The bound has the first two digits (digits.hpp) of s, followed by zeros.
/// Infinity and NaN are always candidates.
template <class Source>
struct find_bound {
  using A = typename selection<Source>::A;
  using key = bits_of<A>;
  struct memory {
    digit_memory digit;
    fast_array<std::uint32_t, digit_bins> bins;
  };

  selection<Source> of;
  key const* keys;
  std::uint32_t samples, rank;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto const first = digit_of<key>(0, 0);
    find(team, fast, first, rank);
    auto const second = digit_of<key>(1, first.followed_by(fast.digit.digit));
    find(team, fast, second, fast.digit.rank);
    auto const bound = second.followed_by(fast.digit.digit) << second.shift;
    constexpr auto infinite = infinite_bits<A>();
    auto* const state = of.state;
    team.for_each(1u, [=](std::uint32_t) { state->bound = bound < infinite ? bound : infinite; });
  }

 private:
  template <class Team>
  PITH_HD void find(Team const& team, memory& fast, digit_of<key> digit, std::uint32_t of_rank) const {
    auto* const bins = fast.bins.data();
    auto const* const sample = keys;
    team.for_each(constant<digit_bins>(), [=](std::uint32_t i) { bins[i] = 0; });
    count_digits_into(team, bins, digit, sample, samples, [](key bits) { return bits; });
    find_digit(team, fast.digit, bins, of_rank);
  }
};

/// Collects the candidates of a run of neighbouring values (collected_by) if they fit into the buffer of candidates. In
/// this case, also writes the values to the residual if the source has residual write-back (core/source.hpp).
template <class Source>
struct collect_candidates {
  using A = typename selection<Source>::A;
  static constexpr std::uint32_t items_per_block = select_span<A>;
  static constexpr unsigned resident_blocks = 5;  // 48 registers: 32 hold the values that a thread reads at once
  struct listed {
    fast_array<A, select_span<A>> p;
    fast_array<std::uint32_t, select_span<A> + kept_slack> list;
    std::uint32_t first;
  };
  union memory {
    listed span;
    fast_array<A, select_part<A>> part;
  };

  selection<Source> of;
  std::uint32_t each;  ///< the number of values of a block, a multiple of collected_by

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    constexpr auto most = collected_by<A, Team>;
    if constexpr (places_at_least<Team>) {
      collect_run(team, fast, block);
    } else {
      auto const begin = block * (each / most), end = begin + each / most;
      for (auto run = begin; run < end && run * most < of.n; ++run) collect_run(team, fast, run);
    }
  }

 private:
  template <class Team>
  PITH_HD void collect_run(Team const& team, memory& fast, std::uint64_t run) const {
    constexpr auto most = collected_by<A, Team>;
    auto const rest = of.n - run * most;
    if (rest >= most) {
      collect(team, fast, run, constant<most>());
    } else {
      collect(team, fast, run, static_cast<std::uint32_t>(rest));
    }
  }
  template <class Team, class Count>
  PITH_HD void collect(Team const& team, memory& fast, std::uint64_t block, Count count) const {
    auto const first = block * collected_by<A, Team>;
    if constexpr (places_at_least<Team>) {
      auto const all = *this;
      auto const* const p = of.from.load(team, first, count, fast.part.data());
      auto const fits = team.filter_to_slots(
          p, count, bound(first),
          [=, &team](std::uint32_t kept) {
            auto const place = all.note(team, block, kept);
            return all.fits(place, kept) ? place : Team::nowhere;
          },
          [=](std::uint32_t i, std::uint32_t place) { all.put(first + i, p[i], place); });
      if (fits) store_input(team, first, count, p);
    } else {
      collect_list(team, fast.span, block, count);
    }
  }

  template <class Team, class Count>
  PITH_HD void collect_list(Team const& team, listed& fast, std::uint64_t block, Count count) const {
    auto const first = block * select_span<A>;
    auto const* const p = source_values(of.from, team, first, count, fast.p.data());
    auto const* const list = fast.list.data();
    auto const kept = team.filter_magnitude(p, count, bound(first), fast.list.data());
    auto* const place = &fast.first;
    auto const all = *this;
    team.for_each(1u, [=, &team](std::uint32_t) { *place = all.note(team, block, kept); });
    if (!fits(*place, kept)) return;
    team.for_each(kept, [=](std::uint32_t j) { all.put(first + list[j], p[list[j]], *place + j); });
    store_input(team, first, count, p);
  }

  /// Reserves places for `kept` candidates, and writes their note. Returns the first place.
  template <class Team>
  PITH_HD std::uint32_t note(Team const& team, std::uint64_t block, std::uint32_t kept) const {
    auto const place = team.add(&of.state->found, kept);
    of.notes[block] = {place, kept, 0};
    return place;
  }
  PITH_HD bool fits(std::uint32_t place, std::uint32_t kept) const {
    return static_cast<std::uint64_t>(place) + kept <= of.room;
  }

  PITH_HD void put(std::uint64_t i, A value, std::uint32_t place) const {
    of.found.index[place] = static_cast<std::uint32_t>(i);
    of.found.value[place] = value;
    if constexpr (Source::stores_residual) of.found.old[place] = of.from.old_residual(i);
  }

  template <class Team, class Count>
  PITH_HD void store_input(Team const& team, std::uint64_t first, Count count, A const* p) const {
    if constexpr (Source::stores_residual) of.from.store_input(team, first, count, p);
  }

  /// Returns the least key of a candidate in the run that begins at element `first`. If fewer than k values are
  /// nonzero, some zeros are selected. Ties go to the smaller index, so the selected zeros have indices below k. Zeros
  /// are therefore no candidates in a run that begins at element k or later.
  PITH_HD bits_of<A> bound(std::uint64_t first) const {
    auto const least = of.state->bound;
    return least == 0 && first >= of.k ? bits_of<A>{1} : least;
  }
};

/// If there are at least k candidates and all candidates fit into the buffer, computes the positions of each
/// note's candidates in the order of indices, and sets `complete` in the state.
template <class Source>
struct order_candidates {
  struct memory {
    prefix_memory scan;
    std::uint32_t moved;
  };

  selection<Source> of;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    constexpr auto most = collected_by<typename selection<Source>::A, Team>;
    auto const size = static_cast<std::uint32_t>((of.n - 1) / most + 1);  // the number of notes
    auto* const state = of.state;
    if (state->found < of.k || state->found > of.room) return;
    auto* const moved = &fast.moved;
    auto* const notes = of.notes;
    team.for_each(1u, [=](std::uint32_t) { *moved = 0; });
    prefix_sums(
        team, fast.scan, size, [=](std::uint32_t b) { return notes[b].count; },
        [=](std::uint32_t b, std::uint32_t before, std::uint32_t) {
          notes[b].place = before;
          if (notes[b].first != before) *moved = 1;
        });
    team.for_each(1u, [=](std::uint32_t) {
      state->in_order = *moved == 0 ? 1 : 0;
      state->complete = 1;
    });
  }
};

/// Copies the candidates to `ordered` in the order of indices, if `found` is not in this order.
template <class Source>
struct move_candidates {
  using A = typename selection<Source>::A;
  static constexpr std::uint32_t items_per_block = 512;  // few, because each value needs three accesses in turn
  struct memory {};

  selection<Source> of;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = static_cast<std::uint32_t>(block) * items_per_block;
    if (!of.from_candidates() || of.state->in_order != 0 || first >= of.state->found) return;
    auto const count = block_size(of.state->found, first, items_per_block);
    auto const from = of.found, to = of.ordered;
    auto const all = of;
    team.for_each(count, [=, &team](std::uint32_t i) {
      auto const note = all.note_of(team, from.index[first + i]);
      auto const place = note.place + (first + i - note.first);
      to.index[place] = from.index[first + i];
      to.value[place] = from.value[first + i];
      if constexpr (Source::stores_residual) to.old[place] = from.old[first + i];
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
