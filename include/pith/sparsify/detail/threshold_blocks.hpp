// pith/sparsify/detail/threshold_blocks.hpp — kernels that count and write the values that reach a bound.
#pragma once

#include <pith/codec/detail/entries.hpp>
#include <pith/sparsify/detail/prefix_sums.hpp>
#include <pith/sparsify/detail/selection.hpp>

#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The values of a source that reach a bound. A value x reaches the bound if magnitude_bits(x) >= bound(). If more than
/// `capacity` values reach the bound, the kernels write the first `capacity` of these values, or all n values of the
/// source if `all` is true.
template <class Source, class Bound>
struct large_values {
  Source from;
  std::uint64_t n;
  Bound bound;
  std::uint32_t capacity;
  bool all;
  std::uint32_t* counts;  ///< one count per part (selection.hpp)
  std::uint32_t* count;
};

template <class A>
struct fixed_bound {
  bits_of<A> bits;
  PITH_HD bits_of<A> operator()() const { return bits; }
};

template <class In>
struct entry_places {
  In const* x;
  std::uint32_t* indices;
  In* values;

  PITH_HD void put(std::uint32_t place, std::uint32_t i) const { indices[place] = i, values[place] = x[i]; }
  PITH_HD void copy(std::uint64_t i) const { values[i] = x[i]; }
};

template <class Source, class Bound>
struct count_large {
  using A = decltype(std::declval<Source const&>()(0));
  static constexpr std::uint32_t items_per_block = select_part<A>;
  using memory = fast_array<A, select_span<A>>;

  large_values<Source, Bound> of;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t part) const {
    auto const begin = part * select_part<A>;
    auto const bound = of.bound();
    std::uint32_t reach = 0;
    for (auto first = begin; first < of.n && first < begin + select_part<A>; first += select_span<A>) {
      auto const count = block_size(of.n, first, select_span<A>);
      auto const* const p = source_values(of.from, team, first, count, fast.data());
      reach += team.count(count, [=](std::uint32_t i) { return magnitude_bits(p[i]) >= bound; });
    }
    auto* const to = of.counts + part;
    team.for_each(1u, [=](std::uint32_t) { *to = reach; });
  }
};

/// Computes the prefix sums of the parts' counts, and the number of values in the payload.
template <class Source, class Bound>
struct place_large {
  using memory = prefix_memory;

  large_values<Source, Bound> of;
  std::uint32_t parts;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto* const counts = of.counts;
    auto const reach = prefix_sums(
        team, fast, parts, [=](std::uint32_t i) { return counts[i]; },
        [=](std::uint32_t i, std::uint32_t before, std::uint32_t) { counts[i] = before; });
    auto const most = of.all ? static_cast<std::uint32_t>(of.n) : of.capacity;
    auto const total = reach <= of.capacity ? reach : most;
    auto* const to = of.count;
    team.for_each(1u, [=](std::uint32_t) { *to = total; });
  }
};

template <class Source, class Bound, class Places>
struct emit_large {
  using A = decltype(std::declval<Source const&>()(0));
  static constexpr std::uint32_t items_per_block = select_part<A>;
  struct memory {
    fast_array<A, select_span<A>> p;
    fast_array<std::uint32_t, select_span<A> + kept_slack> list;
  };

  large_values<Source, Bound> of;
  Places to;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t part) const {
    auto const begin = part * select_part<A>;
    auto place = of.counts[part];
    for (auto first = begin; first < of.n && first < begin + select_part<A>; first += select_span<A>) {
      auto const count = block_size(of.n, first, select_span<A>);
      if (*of.count > of.capacity) {
        auto const out = to;
        team.for_each(count, [=](std::uint32_t i) { out.copy(first + i); });
      } else {
        place += emit(team, fast, static_cast<std::uint32_t>(first), count, place);
      }
    }
  }

 private:
  template <class Team>
  PITH_HD std::uint32_t emit(Team const& team, memory& fast, std::uint32_t first, std::uint32_t count,
                             std::uint32_t place) const {
    auto const* const p = source_values(of.from, team, first, count, fast.p.data());
    auto const* const list = fast.list.data();
    auto const reach = team.filter_magnitude(p, count, of.bound(), fast.list.data());
    auto const room = place < of.capacity ? of.capacity - place : 0;
    auto const out = to;
    team.for_each(reach < room ? reach : room, [=](std::uint32_t j) { out.put(place + j, first + list[j]); });
    return reach;
  }
};

/// If the payload contains all n values, sets x to these values. Otherwise sets x to zero. `scatter_counted` then
/// writes the values of the payload.
template <class In>
struct expand_all {
  In const* values;
  std::uint32_t const* count;
  std::uint32_t capacity;
  In* x;
  PITH_HD void operator()(std::uint64_t i) const { x[i] = *count > capacity ? values[i] : In(0.0f); }
};

/// Replaces the indices after the first `*count` indices by padding (no_index).
struct drop_uncounted {
  std::uint32_t const* count;
  std::uint32_t* indices;
  PITH_HD void operator()(std::uint64_t i) const {
    if (i >= *count) indices[i] = no_index;
  }
};

/// If the payload does not contain all n values, writes each of the first `*count` values to its index in x.
template <class In>
struct scatter_counted {
  In const* values;
  std::uint32_t const* indices;
  std::uint32_t const* count;
  std::uint32_t capacity;
  bool all;
  In* x;
  PITH_HD void operator()(std::uint64_t i) const {
    if (i < *count && !(all && *count > capacity)) x[indices[i]] = values[i];
  }
};

}}}  // namespace pith::PITH_ABI::detail
