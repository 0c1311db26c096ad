// pith/quantize/detail/large_buckets.hpp — encoding of buckets that are larger than a block.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/core/source.hpp>
#include <pith/quantize/detail/code_block.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A source that loads whole tiles of a transform (transform/tile_transform.hpp). A block has one or more tiles.
template <class Source>
concept loads_tiles = requires {
  requires Source::is_tiled;
};

/// The number of elements that a loop measures at once. This number is small, so that prefetches do not stall the loop.
/// A source that loads tiles needs the larger number `Span`.
template <class Source, std::uint32_t Span>
inline constexpr std::uint32_t measured_part = loads_tiles<Source> ? Span : 128;

/// `Span` partial statistics, which are called lanes. Each member of the statistic has its own array, so that vector
/// instructions can update all lanes.
template <class Rule, class A, std::uint32_t Span>
struct member_lanes {
  double of[member_count<Rule>][Span];

  static_assert(sizeof(statistic_of<Rule, A>) == sizeof(double) * member_count<Rule>,
                "pith: scalar_quantizer<Rule>: members must list all members of the statistic");

  /// For each i < Span, merges the statistic of value p[i] into lane i. If `is_first` is true, sets lane i to this
  /// statistic instead.
  PITH_HD void add(Rule const& rule, A const* p, bool is_first) { add_each(rule, p, is_first, each()); }
  PITH_HD void store(statistic_of<Rule, A>* to) const {
    for (std::uint32_t i = 0; i < Span; ++i) store_each(to[i], i, each());
  }

 private:
  using each = std::make_index_sequence<member_count<Rule>>;

  template <std::size_t... M>
  PITH_HD void add_each(Rule const& rule, A const* p, bool is_first, std::index_sequence<M...>) {
    (add_to<M>(rule, p, is_first), ...);
  }
  template <std::size_t M>
  PITH_HD void add_to(Rule const& rule, A const* p, bool is_first) {
    for (std::uint32_t i = 0; i < Span && is_first; ++i) of[M][i] = rule.measure(p[i]).*Rule::members[M];
    for (std::uint32_t i = 0; i < Span && !is_first; ++i) {
      auto sum = statistic_of<Rule, A>();
      sum.*Rule::members[M] = of[M][i];
      of[M][i] = rule.merge(sum, rule.measure(p[i])).*Rule::members[M];
    }
  }
  template <std::size_t... M>
  PITH_HD void store_each(statistic_of<Rule, A>& to, std::uint32_t i, std::index_sequence<M...>) const {
    ((to.*Rule::members[M] = of[M][i]), ...);
  }
};

/// Returns counters of finished tiles, one per bucket. The counters are zero. If there is only one bucket and
/// `id.arrived` is not null, the counter is *id.arrived. On a host, a call that threw may have left a count in it.
template <executor E>
std::uint32_t* arrival_words(E const& exec, encoding_id const& id, std::uint64_t buckets, workspace_on<E>& ws) {
  if (buckets == 1 && id.arrived != nullptr) {
    if constexpr (host_executor<E>) *id.arrived = 0;
    return id.arrived;
  }
  auto* const words = ws.template take<std::uint32_t>(buckets).data;
  exec.fill(words, std::byte{}, value_bytes<std::uint32_t>(buckets));
  return words;
}

/// Computes the statistic of one tile (core/detail/summation.hpp) of a bucket. If `code` needs no scale
/// (ext::scale_free), also writes the tile's symbols. The block that finishes the last tile of a bucket also computes
/// the bucket's scale.
template <class Rule, class Source, class A, std::uint32_t Span>
struct measure_tiles {
  static_assert(tile_lanes % Span == 0 && Span % measured_part<Source, Span> == 0);
  static constexpr std::uint32_t items_per_block = tile;
  /// True if a device's thread can keep the statistics of an octet in registers, and the source copies no values.
  static constexpr bool keeps_octets = sizeof(statistic_of<Rule, A>) == sizeof(double) &&
                                       std::same_as<Source, ext::plain_source<A>> &&
                                       (sign_only<Rule> || !needs_no_scale<Rule>);
  static constexpr unsigned resident_blocks = sizeof(A) > 4 ? 3 : keeps_octets ? 6 : 4;

  struct memory {
    fast_array<A, Span> room;
    fast_array<symbol_word<Rule::bits>, needs_no_scale<Rule> && !sign_only<Rule> ? Span : 1> symbols;
    fast_array<statistic_of<Rule, A>, tile_lanes> lanes;
  };

  quantized<Rule, A> to;
  Source from;
  statistic_of<Rule, A>* partial;
  std::uint32_t* arrived;  ///< the number of finished tiles of each bucket

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    auto const run = to.over.tile_at(t);
    if (!add_octets(team, fast, run) && !add_columns(team, fast, run)) add_parts(team, fast, run);
    merge_lanes(team, fast.lanes.data(), run.count < tile_lanes ? run.count : tile_lanes, merged<Rule>{to.rule});
    auto const* const lanes = fast.lanes.data();
    auto* const out = partial + t;
    if (run.count > 0) team.for_each(1u, [=](std::uint32_t) { *out = lanes[0]; });
    if (team.is_last(arrived + run.bucket, static_cast<std::uint32_t>(to.over.tiles()))) finish(team, fast, run.bucket);
  }

 private:
  template <class Team>
  PITH_HD void finish(Team const& team, memory& fast, std::uint64_t b) const {
    auto const width = to.over.width(b);
    auto* const mine = partial + b * to.over.tiles();
    auto* const out = to.scales + b;
    auto const rule = to.rule;
    reduce_values(team, fast.lanes.data(), mine, tiles(width), merged<Rule>{rule});
    team.for_each(1u, [=](std::uint32_t) { *out = rule.finish(mine[0], width, A{}); });
  }

  /// Measures a tile of full size on a device. Each thread merges all rows of an octet of lanes in registers. Returns
  /// false, without effect, if the tile is smaller, if keeps_octets is false, or if the team does not work by octets.
  template <class Team>
  PITH_HD bool add_octets([[maybe_unused]] Team const& team, [[maybe_unused]] memory& fast,
                          [[maybe_unused]] bucket_run const& run) const {
    if constexpr (Team::by_octets && keeps_octets) {
      if (run.count < tile) return false;
      auto const* const p = from.x + run.first;
      auto* const lanes = fast.lanes.data();
      auto* const bytes = to.bytes + run.first / octet;
      auto const rule = to.rule;
      team.for_each_run(tile_lanes, is_vector_aligned(p), [=](std::uint32_t i, auto const& octet_of) {
        statistic_of<Rule, A> sums[octet];
        PITH_CUDA_NO_UNROLL
        for (auto at = i; at < tile; at += tile_lanes) {
          auto const x = octet_of.read(p + at);
          for (std::uint32_t lane = 0; lane < octet; ++lane) {
            auto const own = rule.measure(x[lane]);
            sums[lane] = at == i ? own : rule.merge(sums[lane], own);
          }
          if constexpr (needs_no_scale<Rule>) bytes[at / octet] = negative_byte(x, octet);
        }
        for (std::uint32_t lane = 0; lane < octet; ++lane) lanes[i + lane] = sums[lane];
      });
      return true;
    } else {
      return false;
    }
  }

  /// Measures a tile of full size with vector instructions. Processes a few lanes of the tile at a time, in all rows,
  /// so that these lanes stay in the L1 cache. Returns false, without effect, if the tile is smaller, if the rule has
  /// no list of members, or if the team works by octets.
  template <class Team>
  PITH_HD bool add_columns([[maybe_unused]] Team const& team, [[maybe_unused]] memory& fast,
                           [[maybe_unused]] bucket_run const& run) const {
    if constexpr (Team::by_octets || member_count<Rule> == 0) {
      return false;
    } else {
      if (run.count < tile) return false;
      constexpr auto part = constant<measured_part<Source, Span>>();
      member_lanes<Rule, A, part> lanes;
      for (std::uint32_t lane = 0; lane < tile_lanes; lane += part) {
        for (auto at = lane; at < tile; at += tile_lanes) {
          auto const* const p = from.load(team, run.first + at, part, fast.room.data());
          lanes.add(to.rule, p, at < tile_lanes);
          write_symbols(team, fast, run.first + at, p, part);
        }
        lanes.store(fast.lanes.data() + lane);
      }
      return true;
    }
  }
  template <class Team>
  PITH_HD void add_parts(Team const& team, memory& fast, bucket_run const& run) const {
    std::uint32_t at = 0;
    if constexpr (Team::specializes) {
      constexpr auto part = constant<measured_part<Source, Span>>();
      for (; at + part <= run.count; at += part) add_part(team, fast, run, at, part);
    }
    for (; at < run.count; at += Span) add_part(team, fast, run, at, run.count - at < Span ? run.count - at : Span);
  }
  template <class Team, class Count>
  PITH_HD void add_part(Team const& team, memory& fast, bucket_run const& run, std::uint32_t at, Count count) const {
    auto* const lanes = fast.lanes.data() + at % tile_lanes;
    auto const rule = to.rule;
    auto const* const p = from.load(team, run.first + at, count, fast.room.data());
    if (at < tile_lanes) {
      team.for_each(count, [=](std::uint32_t i) { lanes[i] = rule.measure(p[i]); });
    } else {
      team.for_each(count, [=](std::uint32_t i) { lanes[i] = rule.merge(lanes[i], rule.measure(p[i])); });
    }
    write_symbols(team, fast, run.first + at, p, count);
  }
  template <class Team, class Count>
  PITH_HD void write_symbols(Team const& team, memory& fast, std::uint64_t first, A const* p, Count count) const {
    if constexpr (needs_no_scale<Rule>) {
      auto const rule = to.rule;
      auto* const bytes = to.bytes + first / octet * Rule::bits;
      if constexpr (sign_only<Rule>) {
        team.pack_signs(p, count, bytes);
      } else {
        auto* const symbols = fast.symbols.data();
        team.for_each(count, [=](std::uint32_t i) {
          symbols[i] = static_cast<symbol_word<Rule::bits>>(rule.code(p[i], refined_of<Rule, A>(), 0));
        });
        pack_symbols<Rule::bits>(team, symbols, count, bytes);
      }
    }
  }
};

/// The rule that measures the scale of a tensor, for which the tensor is one bucket.
template <class Rule>
struct tensor_rule {
  static constexpr int bits = 1;

  Rule rule;

  template <class A>
  PITH_HD double measure(A x) const {
    return is_finite(x) ? magnitude(static_cast<double>(x)) : 0;
  }
  PITH_HD double merge(double a, double b) const { return a > b ? a : b; }
  template <class A>
  PITH_HD A finish(double largest, std::uint64_t, A) const {
    return rule.tensor_scale(largest, A{});
  }
};

/// Encodes a part of a bucket whose scale is known, or a part of a tensor without scales.
template <class Rule, class Source, class A, std::uint32_t Span>
struct quantize_part {
  using memory = quantizer_memory<Rule, A, Span>;

  quantized<Rule, A> to;
  Source from;
  draws random;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const run = to.over.at(block);
    if constexpr (measures<Rule, A>) read_scale(team, fast, run.bucket);
    if constexpr (Team::specializes) {
      if (run.count == Span) return encode(team, fast, run.first, constant<Span>());
    }
    encode(team, fast, run.first, run.count);
  }

 private:
  template <class Team>
  PITH_HD void read_scale(Team const& team, memory& fast, std::uint64_t bucket) const {
    auto const* const scale = to.scales + bucket;
    auto* const scales = fast.scales.data();
    auto* const refined = fast.refined.data();
    auto const rule = to.rule;
    team.for_each(1u, [=](std::uint32_t) {
      scales[0] = *scale;
      refined[0] = refine(rule, *scale);
    });
  }
  template <class Team, class Count>
  PITH_HD void encode(Team const& team, memory& fast, std::uint64_t first, Count count) const {
    auto const* const p = from.load(team, first, count, fast.room.data());
    code_block<!needs_no_scale<Rule>>(to, from, random, team, fast, first, p, count, count, count);
  }
};

}}}  // namespace pith::PITH_ABI::detail
