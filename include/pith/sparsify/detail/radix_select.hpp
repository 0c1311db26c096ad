// pith/sparsify/detail/radix_select.hpp — radix selection, which finds the k-th largest key digit by digit.
#pragma once

#include <pith/sparsify/detail/choose.hpp>
#include <pith/sparsify/detail/selection.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// For each digit d, counts the keys of one part (selection.hpp) that begin with the known digits, followed by d. Adds
/// the count to bins[round][d] of the state.
template <class Source>
struct count_digits {
  using A = typename selection<Source>::A;
  static constexpr std::uint32_t items_per_block = select_part<A>;
  static constexpr unsigned resident_blocks = sizeof(A) == 4 ? 5 : 4;
  struct memory {
    fast_array<A, select_span<A>> p;
    fast_array<std::uint32_t, digit_bins> bins;
  };

  selection<Source> of;
  unsigned round;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t part) const {
    auto const size = of.size(), length = std::uint64_t{of.part(team)}, begin = part * length;
    if (begin >= size) return;
    auto* const bins = fast.bins.data();
    auto* const sums = of.state->bins[round];
    auto const digit = digit_of<bits_of<A>>(round, of.state->prefix);
    team.for_each(constant<digit_bins>(), [=](std::uint32_t i) { bins[i] = 0; });
    for (auto first = begin; first < size && first < begin + length; first += select_span<A>) {
      auto const count = block_size(size, first, select_span<A>);
      auto const* const p = selection_values(of, team, first, count, fast.p.data());
      count_digits_into(team, bins, digit, p, count, [](A value) { return magnitude_bits(value); });
    }
    team.for_each(constant<digit_bins>(), [=, &team](std::uint32_t i) {
      if (bins[i] != 0) team.add(sums + i, bins[i]);
    });
  }
};

template <class Source>
struct fix_digit {
  using A = typename selection<Source>::A;
  using memory = digit_memory;

  selection<Source> of;
  unsigned round;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto* const state = of.state;
    auto const digit = digit_of<bits_of<A>>(round, state->prefix);
    find_digit(team, fast, state->bins[round], round == 0 ? of.k : state->rank);
    auto const* const found = &fast;
    team.for_each(1u, [=](std::uint32_t) {
      state->prefix = digit.followed_by(found->digit);
      state->rank = found->rank;
    });
  }
};

/// Counts the keys of a part that are above the k-th largest key, and the keys that equal the k-th largest key.
template <class Source>
struct count_kept {
  using A = typename selection<Source>::A;
  static constexpr std::uint32_t items_per_block = select_part<A>;
  static constexpr unsigned resident_blocks = sizeof(A) == 4 ? 5 : 4;
  using memory = fast_array<A, select_span<A>>;

  selection<Source> of;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t part) const {
    auto const size = of.size(), length = std::uint64_t{of.part(team)}, begin = part * length;
    if (begin >= size) return;
    auto const least = of.state->prefix;
    std::uint32_t above = 0, reach = 0;
    for (auto first = begin; first < size && first < begin + length; first += select_span<A>) {
      auto const count = block_size(size, first, select_span<A>);
      auto const* const p = selection_values(of, team, first, count, fast.data());
      above += team.count(count, [=](std::uint32_t i) { return magnitude_bits(p[i]) > least; });
      reach += team.count(count, [=](std::uint32_t i) { return magnitude_bits(p[i]) >= least; });
    }
    auto* const note = of.parts + part;
    team.for_each(1u, [=](std::uint32_t) { *note = {above, reach - above}; });
  }
};

/// Computes the prefix sums of the parts' counts. Each part has two counts: the keys above the k-th largest key, and
/// the keys equal to the k-th largest key.
template <class Source>
struct place_kept {
  using A = typename selection<Source>::A;
  using memory = prefix_memory;

  selection<Source> of;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto* const notes = of.parts;
    auto const parts = static_cast<std::uint32_t>(blocks_for(of.size(), of.part(team)));
    prefix_sums(
        team, fast, parts, [=](std::uint32_t i) { return notes[i].above; },
        [=](std::uint32_t i, std::uint32_t before, std::uint32_t) { notes[i].above = before; });
    prefix_sums(
        team, fast, parts, [=](std::uint32_t i) { return notes[i].equal; },
        [=](std::uint32_t i, std::uint32_t before, std::uint32_t) { notes[i].equal = before; });
  }
};

template <class Source>
using olds_of =
    fast_array<typename selection<Source>::A, Source::stores_residual ? select_span<typename selection<Source>::A> : 1>;

template <class Source, class Out>
struct emit_kept {
  using A = typename selection<Source>::A;
  static constexpr std::uint32_t items_per_block = select_part<A>;
  struct memory {
    fast_array<A, select_span<A>> p;
    olds_of<Source> old;
    choice_memory<A> choice;
  };

  selection<Source> of;
  selected_entries<Out> to;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t part) const {
    auto const size = of.size(), length = std::uint64_t{of.part(team)}, begin = part * length;
    if (begin >= size) return;
    auto const note = of.parts[part];
    auto const rank = of.state->rank;
    auto equals = note.equal < rank ? rank - note.equal : 0;
    auto place = note.above + (rank - equals);
    for (auto first = begin; first < size && first < begin + length; first += select_span<A>) {
      auto const count = block_size(size, first, select_span<A>);
      auto const kept = emit(team, fast, first, count, place, equals);
      place += kept.count;
      equals -= kept.equal;
    }
  }

 private:
  template <class Team>
  PITH_HD choice emit(Team const& team, memory& fast, std::uint64_t first, std::uint32_t count, std::uint32_t place,
                      std::uint32_t equals) const {
    auto const* const p = selection_values(of, team, first, count, fast.p.data());
    auto const kept = choose(team, fast.choice, p, count, of.state->prefix, equals);
    auto const out = to;
    auto const listed = of.from_candidates();
    auto const* const names = of.chosen().index;
    team.for_each(kept.count, [=](std::uint32_t j) {
      auto const i = first + kept.list[j];
      out.indices[place + j] = listed ? names[i] : static_cast<std::uint32_t>(i);
      out.values[place + j] = element_cast<Out>(p[kept.list[j]]);
    });
    if constexpr (Source::stores_residual) store_input(team, fast, first, count, p, kept, place);
    return kept;
  }

  template <class Team>
  PITH_HD void store_input(Team const& team, memory& fast, std::uint64_t first, std::uint32_t count, A const* p,
                           choice const& kept, std::uint32_t place) const {
    auto* const old = fast.old.data();
    auto* const out = to.old + place;
    auto const* const from =
        of.from_candidates() ? of.chosen().old + first : selection_olds(of, team, first, count, p, old);
    team.for_each(kept.count, [=](std::uint32_t j) { out[j] = from[kept.list[j]]; });
    if (!of.from_candidates() && !of.was_left(team, first)) of.from.store_input(team, first, count, p);
  }
};

}}}  // namespace pith::PITH_ABI::detail
