// pith/codec/detail/entry_sum.hpp — the sum of many ranks' entries, computed tile by tile in block-local memory.
#pragma once

#include <pith/codec/detail/entries.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/split_factor.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The number of tensor elements in a tile. Each block sums the entries of one tile.
template <class A>
inline constexpr std::uint32_t entry_tile = 32768 / sizeof(A);

/// One list of `room` entries per rank. The lists are `stride` entries apart.
template <class In>
struct entry_lists {
  std::uint32_t* indices;
  In* values;
  std::uint64_t room, stride;

  PITH_HD selected_entries<In> of(std::uint64_t rank) const {
    return {indices + rank * stride, values + rank * stride};
  }
};

/// Sets starts[rank (tiles + 1) + t] to the number of entries that the rank has before tile t.
template <class In>
struct find_tiles {
  entry_lists<In> lists;
  std::uint64_t tiles;
  std::uint32_t* starts;

  PITH_HD void operator()(std::uint64_t i) const {
    auto const* const indices = lists.of(i / (tiles + 1)).indices;
    auto const first = i % (tiles + 1) * entry_tile<accum<In>>;
    starts[i] = count_below(indices, static_cast<std::uint32_t>(lists.room), first);
  }
};

/// Adds the entries of some ranks to a tile, in rank order. Additions need not be atomic, because the indices of a rank
/// are distinct. If a corrupt payload repeats an index, a device may add only one of the values. An index that is out
/// of order falls outside the tile and is skipped.
template <class In>
struct add_entries {
  using A = accum<In>;
  static constexpr std::uint32_t items_per_block = entry_tile<A>;
  using memory = fast_array<A, items_per_block>;

  entry_lists<In> lists;
  std::uint64_t tiles;
  std::uint32_t const* starts;
  unsigned ranks;
  std::uint64_t n;
  A* sums;  ///< in and out: the partial sums over the ranks of earlier passes
  bool is_first, is_last;
  split_factor<A> factor;
  In* x;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    auto const first = t * items_per_block;
    auto const count = block_size(n, first, items_per_block);
    auto* const sum = fast.data();
    auto* const kept = sums + first;
    if (is_first) {
      team.for_each(count, [=](std::uint32_t i) { sum[i] = 0; });
    } else {
      team.for_each(count, [=](std::uint32_t i) { sum[i] = kept[i]; });
    }
    for (unsigned rank = 0; rank < ranks; ++rank) add(team, sum, rank, t, count);
    if (is_last) {
      auto* const out = x + first;
      auto const share = factor.after;
      if (factor.overflows) {
        team.for_each(count, [=](std::uint32_t i) { out[i] = saturated_cast<In>(bounded_product(share, sum[i])); });
      } else {
        team.for_each(count, [=](std::uint32_t i) { out[i] = saturated_cast<In>(share * sum[i]); });
      }
    } else {
      team.for_each(count, [=](std::uint32_t i) { kept[i] = sum[i]; });
    }
  }

 private:
  template <class Team>
  PITH_HD void add(Team const& team, A* sum, unsigned rank, std::uint64_t t, std::uint32_t count) const {
    auto const* const start = starts + rank * (tiles + 1) + t;
    auto const all = lists.of(rank);
    auto const* const indices = all.indices + start[0];
    auto const* const values = all.values + start[0];
    auto const first = static_cast<std::uint32_t>(t * items_per_block);
    auto const share = factor.before;
    team.for_each(start[1] < start[0] ? 0 : start[1] - start[0], [=](std::uint32_t j) {
      auto const i = indices[j] - first;
      if (i < count) sum[i] += share * element_cast<A>(values[j]);
    });
  }
};

/// The plan for a sum of entries. If all ranks together have more entries than the tensor has elements, the sum
/// processes a few ranks at a time.
template <class In>
struct entry_sum {
  using A = accum<In>;

  std::uint64_t n, room;
  unsigned ranks;

  std::uint64_t stride() const { return align_up(room, scratch_alignment / sizeof(std::uint32_t)); }
  unsigned at_once() const { return static_cast<unsigned>(std::clamp<std::uint64_t>(n / stride(), 1, ranks)); }
  std::uint64_t tiles() const { return blocks_for(n, entry_tile<A>); }
  /// The number of entries that scratch memory holds at a time. This number never decreases when the capacity grows.
  std::uint64_t entries() const { return ranks * stride() <= n ? ranks * stride() : std::max(n, stride()); }
  /// The number of partial sums that need scratch memory. If all ranks are added at once, there are no partial sums. If
  /// the elements of x have the type of the partial sums, the sums are stored in x.
  std::uint64_t sums() const { return std::same_as<In, A> || at_once() == ranks ? 0 : n; }

  std::size_t scratch_bytes() const {
    return scratch_for<std::uint32_t>(entries()) + scratch_for<In>(entries()) +
           scratch_for<std::uint32_t>(ranks * (tiles() + 1)) + scratch_for<A>(sums());
  }
};

/// Sets x to `factor` times the sum of the ranks' decoded payloads. The payloads list entries and are `stride` bytes
/// apart. Takes one pass over x for each group of entry_sum::at_once() ranks. Except for the sign of zeros, x is
/// bitwise equal to the sum of the decoded tensors, added in rank order.
template <class In, class C, class E, class Replicated>
  requires lists_entries<C, In, E>
void decode_entry_sum(C const& c, context<In, E> const& cx, span_on<E, std::byte const> in, std::size_t stride,
                      unsigned ranks, accum<In> factor, values_on<E, In> x, Replicated const& replicated) {
  using A = accum<In>;
  auto const size = payload_bytes<In>(c, cx.dims);
  auto const by = entry_sum<In>{cx.dims.n, c.max_entries(cx.dims), ranks};
  auto const tiles = by.tiles();
  auto const lists = entry_lists<In>{cx.ws.template take<std::uint32_t>(by.entries()).data,
                                     cx.ws.template take<In>(by.entries()).data, by.room, by.stride()};
  auto* const starts = cx.ws.template take<std::uint32_t>(ranks * (tiles + 1)).data;
  auto* sums = cx.ws.template take<A>(by.sums()).data;
  if constexpr (std::same_as<In, A>) sums = x.data;
  for (unsigned from = 0; from < ranks; from += by.at_once()) {
    auto const some = std::min(by.at_once(), ranks - from);
    for (unsigned r = 0; r < some; ++r) {
      decode_entries<In>(c, cx.from_rank(from + r), in.subspan((from + r) * stride, size), lists.of(r), replicated);
    }
    cx.exec.for_each_index(some * (tiles + 1), find_tiles<In>{lists, tiles, starts});
    cx.exec.for_each_block(tiles, add_entries<In>{lists, tiles, starts, some, cx.dims.n, sums, from == 0,
                                                  from + some == ranks, split_factor<A>(factor, ranks), x.data});
  }
}

}}}  // namespace pith::PITH_ABI::detail
