// pith/sparsify/detail/small_select.hpp — selection of the k largest values, for a tensor that fits into one block.
#pragma once

#include <pith/sparsify/detail/choose.hpp>
#include <pith/sparsify/detail/selection.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The largest tensor size, in spans (selection.hpp), for which one block does the whole selection. For such tensors,
/// several kernels would take longer. `block_spans_of_few` applies on hosts if k is so small that 4 k keys fit into
/// block-local memory, and `block_spans` applies otherwise. On a device, a single block uses one multiprocessor only.
inline constexpr std::uint32_t block_spans = 8, block_spans_of_few = 32;

/// The largest number of values for which each value is compared with all other values.
inline constexpr std::uint32_t few = 32;

/// The number of keys for which block-local memory has space.
template <class A>
inline constexpr std::uint32_t key_room = 2 * select_span<A>;

template <class A, class Space>
constexpr bool fits_in_block(std::uint64_t n, std::uint64_t k) {
  auto const is_few = std::same_as<Space, host_space> && 4 * k <= key_room<A>;
  return n <= (is_few ? block_spans_of_few : block_spans) * select_span<A>;
}

template <class Source, class Out>
struct select_in_block {
  using A = decltype(std::declval<Source const&>()(0));
  using key = bits_of<A>;
  struct memory {
    fast_array<A, select_span<A>> p;
    fast_array<key, key_room<A>> keys;
    choice_memory<A> choice;
  };

  Source from;
  selected_entries<Out> to;
  std::uint32_t n, k;
  std::uint32_t base = 0;  ///< the index of from(0)

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    auto const* const all = n <= select_span<A> ? source_values(from, team, 0, n, fast.p.data()) : nullptr;
    auto found = n <= few ? bound() : find(team, fast, all);
    std::uint32_t place = 0;
    for_each_span(team, fast, all, [&](std::uint32_t first, std::uint32_t count, A const* p) {
      auto const kept =
          n <= few ? rank(team, fast.choice, p) : choose(team, fast.choice, p, count, found.least, found.equals);
      emit(team, first, count, place, p, kept);
      place += kept.count;
      found.equals -= kept.equal;
    });
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
    auto const begin = base + first;
    team.for_each(kept.count, [=](std::uint32_t j) {
      auto const i = kept.list[j];
      out.indices[place + j] = begin + i;
      out.values[place + j] = element_cast<Out>(p[i]);
      if constexpr (Source::stores_residual) out.old[place + j] = source.old_residual(first + i);
    });
    if constexpr (Source::stores_residual) source.store_input(team, first, count, p);
  }

  /// Selects the k largest of n <= `few` values. A value is selected if fewer than k values precede it in descending
  /// order of magnitude.
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

  /// Calls f(first, count, p) for the values of each span. If there is only one span, `p` equals `all`.
  template <class Team, class F>
  PITH_HD void for_each_span(Team const& team, memory& fast, A const* all, F const& f) const {
    for (std::uint32_t first = 0; first < n; first += select_span<A>) {
      auto const count = block_size(n, first, select_span<A>);
      f(first, count, all != nullptr ? all : source_values(from, team, first, count, fast.p.data()));
    }
  }

  /// Finds the k-th largest key among the keys that reach a lower bound. This bound is the k-th largest of the
  /// groups' largest keys. If too many keys reach the bound, or if group_count() is 0, searches among all keys instead.
  template <class Team>
  PITH_HD bound find(Team const& team, memory& fast, A const* all) const {
    auto count = group_count();
    if (count > 0) find_largest(team, fast, all, count);
    // While `lower` is 0, the keys are the groups' largest keys. Afterwards, the keys are those that reach `lower`.
    for (key lower = 0; 0 < count && count <= key_room<A>;) {
      auto const found = bisect_keys(team, fast, count);
      if (lower > 0) return {found.least > lower ? found.least : lower, found.equals};
      lower = found.least > 0 ? found.least : key{1};
      count = collect(team, fast, all, lower);
      if (count < k) return {0, k - count};
    }
    return bisect_all(team, fast, all);
  }

  /// The number of groups, a power of two. Value i belongs to group i modulo this number. A group has 16 to 32 values,
  /// or fewer values if there would otherwise be fewer than max(16, 2 k) groups. Returns 0 if a group would have fewer
  /// than 4 values, or if there would be more than `key_room` groups.
  PITH_HD std::uint32_t group_count() const {
    auto groups = few / 2;
    while (32 * groups <= n || groups < 2 * k) groups *= 2;
    return 4 * groups <= n && groups <= key_room<A> ? groups : 0;
  }

  /// Sets keys[g] to the largest key of group g. The k-th largest of these maxima is a lower bound of the k-th largest
  /// key, because k maxima are keys of at least this size.
  template <class Team>
  PITH_HD void find_largest(Team const& team, memory& fast, A const* all, std::uint32_t groups) const {
    auto* const keys = fast.keys.data();
    auto const width = groups < select_span<A> ? groups : select_span<A>;
    team.for_each(groups, [=](std::uint32_t g) { keys[g] = 0; });
    for_each_span(team, fast, all, [&](std::uint32_t first, std::uint32_t count, A const* p) {
      auto* const largest = keys + first % groups;
      for (std::uint32_t at = 0; at < count; at += width) {
        team.for_each(block_size(count, at, width), [=, row = p + at](std::uint32_t i) {
          auto const own = magnitude_bits(row[i]);
          largest[i] = largest[i] < own ? own : largest[i];
        });
      }
    });
  }

  /// Copies the keys that reach `least` into block-local memory, as long as there is space. Returns the number of all
  /// keys that reach `least`.
  template <class Team>
  PITH_HD std::uint32_t collect(Team const& team, memory& fast, A const* all, key least) const {
    std::uint32_t found = 0;
    auto* const keys = fast.keys.data();
    auto* const list = fast.choice.list.data();
    for_each_span(team, fast, all, [&](std::uint32_t, std::uint32_t count, A const* p) {
      auto const kept = team.filter_magnitude(p, count, least, list);
      if (found + kept <= key_room<A>) {
        team.for_each(kept, [=, to = keys + found](std::uint32_t j) { to[j] = magnitude_bits(p[list[j]]); });
      }
      found += kept;
    });
    return found;
  }

  /// Finds a bound that at least k of `count` keys reach. Determines the bits of the largest such bound from the
  /// highest bit on, and stops early when exactly k keys reach the bound. `reaching` is called at one place, so that it
  /// is compiled once.
  template <class Reaching>
  PITH_HD bound bisect(std::uint32_t count, Reaching const& reaching) const {
    key least = 0;
    for (auto bit = key{1} << (digits<key>::bits - 1); count > k; bit >>= 1) {
      auto const reached = reaching(static_cast<key>(bit > 0 ? least | bit : least + 1));
      if (bit == 0) return {least, k - reached};
      if (reached < k) continue;
      least |= bit;
      count = reached;
    }
    return {least, k};
  }

  template <class Team>
  PITH_HD bound bisect_keys(Team const& team, memory& fast, std::uint32_t count) const {
    auto const* const keys = fast.keys.data();
    return bisect(count,
                  [&](key least) { return team.count(count, [=](std::uint32_t i) { return keys[i] >= least; }); });
  }
  template <class Team>
  PITH_HD bound bisect_all(Team const& team, memory& fast, A const* all) const {
    return bisect(n, [&](key least) {
      std::uint32_t sum = 0;
      for_each_span(team, fast, all, [&](std::uint32_t, std::uint32_t count, A const* p) {
        sum += team.count(count, [=](std::uint32_t i) { return magnitude_bits(p[i]) >= least; });
      });
      return sum;
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
