// pith/quantize/large_buckets.hpp — buckets that span blocks: measured by tiles, finished, then coded part by part.
#pragma once

#include <pith/core/summation.hpp>
#include <pith/quantize/code_block.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// The statistic of one tile of a bucket, part of a row by part; symbols too, where they need no scale.
template <class Rule, class Source, class A, std::uint32_t Span>
struct measure_tiles {
  static_assert(tile_lanes % Span == 0);
  static constexpr std::uint32_t block_span = tile;
  struct memory {
    fast_array<A, Span> room;
    fast_array<symbol_word<Rule::bits>, scale_free<Rule> && !sign_only<Rule> ? Span : 1> symbols;
    fast_array<statistic_of<Rule, A>, tile_lanes> lanes;
  };

  quantized<Rule, A> to;
  Source from;
  statistic_of<Rule, A>* partial;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    auto const run = to.over.tile_at(t);
    add_parts(team, fast, run);
    merge_lanes(team, fast.lanes.data(), run.count < tile_lanes ? run.count : tile_lanes, merged<Rule>{to.rule});
    auto const* const lanes = fast.lanes.data();
    auto* const out = partial + t;
    if (run.count > 0) team.for_each(1u, [=](std::uint32_t) { *out = lanes[0]; });
  }

 private:
  template <class Team>
  PITH_HD void add_parts(Team const& team, memory& fast, bucket_run const& run) const {
    std::uint32_t at = 0;
    if constexpr (Team::specializes) {
      for (; at + Span <= run.count; at += Span) add_part(team, fast, run, at, constant<Span>());
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
    if constexpr (scale_free<Rule>) {
      auto* const bytes = to.bytes + (run.first + at) / group * Rule::bits;
      if constexpr (sign_only<Rule>) {
        team.negatives(p, count, bytes);
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

/// The scale of a bucket from its tiles' statistics.
template <class Rule, class A>
struct finish_buckets {
  using memory = fast_array<statistic_of<Rule, A>, tile_lanes>;

  quantized<Rule, A> to;
  statistic_of<Rule, A>* partial;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t b) const {
    auto const width = to.over.width(b);
    auto* const mine = partial + b * to.over.tiles();
    auto* const out = to.scales + b;
    auto const rule = to.rule;
    reduce_values(team, fast.data(), mine, tiles(width), merged<Rule>{rule});
    team.for_each(1u, [=](std::uint32_t) { *out = rule.finish(mine[0], width, A{}); });
  }
};

/// A part of a bucket whose scale is known, or of a tensor without scales.
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
    code_block<!scale_free<Rule>>(to, from, random, team, fast, first, p, count, count, count);
  }
};

}  // namespace pith::inline v0::detail
