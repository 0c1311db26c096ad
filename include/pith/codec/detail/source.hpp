// pith/codec/detail/source.hpp — where an engine takes values from and puts them, block by block.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/team.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// Asks for what lies 4 KiB behind a block, since a CPU by itself fetches less ahead than the arithmetic of a block takes.
/// That may be behind the tensor: nothing is read.
template <class Team, class T>
PITH_HD inline void fetch_ahead(T const* block, std::uint32_t count) {
  if constexpr (Team::specializes) {
    constexpr std::uint32_t line = 64 / sizeof(T), ahead = 4096 / sizeof(T);
    for (std::uint32_t i = 0; i < count; i += line) PITH_PREFETCH(block + ahead + i);
  }
}

/// A tensor as it is.
///
///   tail(first)                      the same from element `first` on, for engines that go row by row
///   load(team, first, count, room)   values first .. first + count - 1, where they lie or in the room for them
template <class In>
struct plain_source {
  static constexpr bool keeps = false;

  In const* x;

  PITH_HD accum<In> operator()(std::uint64_t i) const { return element_cast<accum<In>>(x[i]); }
  PITH_HD plain_source tail(std::uint64_t first) const { return {x + first}; }

  template <class Team, class Count>
  PITH_HD accum<In> const* load(Team const& team, std::uint64_t first, Count count, accum<In>* room) const {
    auto const* const from = x + first;
    fetch_ahead<Team>(from, count);
    if constexpr (std::same_as<In, accum<In>>) {
      return from;
    } else {
      team.for_each_run(count, is_vector_aligned(from) && is_vector_aligned(room),
                        [=](std::uint32_t begin, auto const& run) {
                          auto const values = run.read(from + begin);
                          run.write(room + begin, [&](std::uint32_t i) { return element_cast<accum<In>>(values[i]); });
                        });
      return room;
    }
  }
};

/// A source that is told what was sent, beside what sources do. An engine that encodes all elements calls
///
///   keep(team, first, count, sent)   what was sent of p; `sent` may be changed
///
/// and one that selects tells it of all when it reads them, and of those that it sends later:
///
///   kept(i)                          what is kept of element i
///   leave(team, first, count, p)     kept = p, where p is finite
///   without(i, p)                    p without what was added to the kept value, up to a rounding
///   settle(i, value, old, sent)      kept = value - sent where that is finite, else old
template <class Source>
concept keeping_source = Source::keeps;

/// A source whose loads begin and end at tiles, of which a block holds one or more.
template <class Source>
concept loads_tiles = requires {
  requires Source::is_tiled;
};

/// What stays of a residual where p - sent is no number: all of it, unless squares of such numbers overflow when a tensor
/// adds them up. That may be why it is no number, and would happen again in every step.
template <class A>
PITH_HD A lasting(A residual) {
  return magnitude(residual) <= (sizeof(A) == 4 ? A(0x1p47) : A(0x1p495)) ? residual : A{0};
}

/// p = residual + g; p - sent is kept where it is a number, elsewhere what is lasting of the residual.
template <class In>
struct residual_source {
  static constexpr bool keeps = true;
  using A = accum<In>;

  In const* g;
  A* residual;

  PITH_HD A operator()(std::uint64_t i) const { return residual[i] + element_cast<A>(g[i]); }
  PITH_HD residual_source tail(std::uint64_t first) const { return {g + first, residual + first}; }

  template <class Team, class Count>
  PITH_HD A const* load(Team const& team, std::uint64_t first, Count count, A* room) const {
    auto const* const gradient = g + first;
    auto const* const from = residual + first;
    fetch_ahead<Team>(gradient, count);
    fetch_ahead<Team>(from, count);
    auto const well = is_vector_aligned(gradient) && is_vector_aligned(from) && is_vector_aligned(room);
    team.for_each_run(count, well, [=](std::uint32_t begin, auto const& run) {
      auto const own = run.read(gradient + begin);
      auto const old = run.read(from + begin);
      run.write(room + begin, [&](std::uint32_t i) { return old[i] + element_cast<A>(own[i]); });
    });
    return room;
  }
  template <class Team, class Count>
  PITH_HD void keep(Team const& team, std::uint64_t first, Count count, A const* sent) const {
    auto const* const gradient = g + first;
    auto* const to = residual + first;
    auto const well = is_vector_aligned(gradient) && is_vector_aligned(to) && is_vector_aligned(sent);
    team.for_each_run(count, well, [=](std::uint32_t begin, auto const& run) {
      auto const own = run.read(gradient + begin);
      auto const old = run.read(to + begin);
      auto const gone = run.read(sent + begin);
      run.write(to + begin, [&](std::uint32_t i) {
        auto const unsent = (old[i] + element_cast<A>(own[i])) - gone[i];
        return is_finite(unsent) ? unsent : lasting(old[i]);
      });
    });
  }

  PITH_HD A kept(std::uint64_t i) const { return residual[i]; }
  PITH_HD A without(std::uint64_t i, A p) const { return p - element_cast<A>(g[i]); }
  template <class Team, class Count>
  PITH_HD void leave(Team const& team, std::uint64_t first, Count count, A const* p) const {
    auto* const to = residual + first;
    team.for_each(count, [=](std::uint32_t i) { to[i] = is_finite(p[i]) ? p[i] : lasting(to[i]); });
  }
  PITH_HD void write_back(std::uint64_t i, A value, A old, A sent) const {
    residual[i] = is_finite(value - sent) ? value - sent : lasting(old);
  }
};

/// Where what was selected goes, in the order of its indices. `old` is what a keeping source kept.
template <class Out>
struct selected_entries {
  std::uint32_t* indices;
  Out* values;
  accum<Out>* old = nullptr;
};

/// Tells a source what was sent of what was selected.
template <class Source, class Out>
struct write_back_selected {
  Source to;
  selected_entries<Out> of;
  Out const* sent;
  PITH_HD void operator()(std::uint64_t j) const { to.write_back(of.indices[j], of.values[j], of.old[j], sent[j]); }
};

/// A tensor that decoding writes: the sum of the ranks' values, times a factor.
///
///   put(i, sum)                      one value; or, if it `takes_blocks`,
///   store(team, first, count, sum)   those of a block, which it may change
template <class In>
struct tensor_sink {
  static constexpr bool takes_blocks = false;

  In* x;
  accum<In> factor;

  /// A rank's value, as it would have been decoded alone.
  PITH_HD static accum<In> rounded(accum<In> value) { return element_cast<accum<In>>(element_cast<In>(value)); }

  PITH_HD void put(std::uint64_t i, accum<In> sum) const { x[i] = element_cast<In>(factor * sum); }

  /// The same of a group.
  template <class Run>
  PITH_HD void put_run(std::uint64_t first, Run const& run, accum<In> const* sum) const {
    run.write(x + first, [&](std::uint32_t i) { return element_cast<In>(factor * sum[i]); });
  }
};

/// What decoding gives is told to a keeping source ...
template <class Source>
struct unsent_sink {
  static constexpr bool takes_blocks = true;

  Source from;

  template <class Team, class Count, class A>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, A* sent) const {
    from.keep(team, first, count, sent);
  }
};
/// ... and then written, maybe over what the source reads.
template <class Source, class In>
struct unsent_and_sent_sink {
  static constexpr bool takes_blocks = true;

  Source from;
  tensor_sink<In> to;

  template <class Team, class Count, class A>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, A* sent) const {
    from.keep(team, first, count, sent);
    auto const tensor = to;
    team.for_each(count, [=](std::uint32_t i) { tensor.put(first + i, sent[i]); });
  }
};

}  // namespace pith::inline v0::detail
