// pith/quantize/quantizer_blocks.hpp — the work of a scalar quantizer on one block, for any executor's team.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/pack.hpp>
#include <pith/core/summation.hpp>
#include <pith/quantize/bucket_blocks.hpp>
#include <pith/quantize/quantizer_rule.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// A rule's merge as a function object.
template <class Rule>
struct merged {
  Rule rule;
  template <class T>
  PITH_HD T operator()(T const& a, T const& b) const {
    return rule.merge(a, b);
  }
};

/// What encoding writes.
template <class Rule, class A>
struct quantized {
  Rule rule;
  bucket_blocks over;
  std::uint8_t* bytes;
  scale_of<Rule, A>* scales;
};

/// A block's fast memory.
template <class Rule, class A, std::uint32_t Span>
struct quantizer_memory {
  fast_array<A, Span> room;
  fast_array<symbol_word<Rule::bits>, Span> symbols;
  fast_array<std::uint16_t, Rule::draws ? Span : 1> random;
  fast_array<refined_of<Rule, A>, Span / group> refined;
  fast_array<scale_of<Rule, A>, Span / group> scales;
  fast_array<statistic_of<Rule, A>, Span> lanes;  // a row of 2^k + 8 values is merged in 2^k lanes
};

/// Symbols of a block whose scales are known: coded, packed unless they are already, and told to the source as the values
/// they stand for.
template <bool Packs, class Rule, class Source, class Team, class Memory, class A, class Count, class Width>
PITH_HD void code_block(quantized<Rule, A> const& to, Source const& from, draws const& random, Team const& team,
                        Memory& fast, std::uint64_t first, A const* p, Count count, Width width) {
  auto* const symbols = fast.symbols.data();
  auto* const lots = fast.random.data();
  auto const* const refined = fast.refined.data();
  auto const* const scales = fast.scales.data();
  auto const rule = to.rule;
  if constexpr (Rule::draws) team.random(random, first / group, static_cast<std::uint32_t>(groups(count)), lots);
  team.for_each_in(count, width, [=](std::uint32_t j) {
    auto const scale = refined[j];
    return [=](std::uint32_t i) {
      symbols[i] = static_cast<symbol_word<Rule::bits>>(rule.code(p[i], scale, Rule::draws ? lots[i] : 0));
    };
  });
  if constexpr (Packs) pack_symbols<Rule::bits>(team, symbols, count, to.bytes + first / group * Rule::bits);
  if constexpr (Source::keeps) {
    auto* const sent = fast.room.data();
    team.for_each_in(count, width, [=](std::uint32_t j) {
      auto const scale = scales[j];
      return [=](std::uint32_t i) { sent[i] = rule.value(symbols[i], scale); };
    });
    from.keep(team, first, count, sent);
  }
}

/// Buckets that a block holds whole: measured, coded and packed in one pass.
template <class Rule, class Source, class A, std::uint32_t Span>
struct quantize_buckets {
  using memory = quantizer_memory<Rule, A, Span>;

  quantized<Rule, A> to;
  Source from;
  draws random;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const run = to.over.at(block);
    if constexpr (Team::specializes) {
      if (run.count == Span && run.width == 128) {
        return encode(team, fast, run, constant<Span>(), constant<128>());
      }
    }
    encode(team, fast, run, run.count, run.width);
  }

 private:
  template <class Team, class Count, class Width>
  PITH_HD void encode(Team const& team, memory& fast, bucket_run const& run, Count count, Width width) const {
    auto const* const p = from.load(team, run.first, count, fast.room.data());
    measure(team, fast, p, count / width, width);
    if (count % width != 0) measure_rest(team, fast, p, count / width, count, width);
    auto const buckets = (count + width - 1) / width;
    auto* const scales = fast.scales.data();
    auto* const refined = fast.refined.data();
    auto* const out = to.scales + run.bucket;
    auto const rule = to.rule;
    team.for_each(buckets, [=](std::uint32_t j) {
      out[j] = scales[j];
      refined[j] = refine(rule, scales[j]);
    });
    code_block<true>(to, from, random, team, fast, run.first, p, count, width);
  }

  /// The scales of whole buckets, whose lanes are merged side by side.
  template <class Team, class Width>
  PITH_HD void measure(Team const& team, memory& fast, A const* p, std::uint32_t buckets, Width width) const {
    auto* const lanes = fast.lanes.data();
    auto* const scales = fast.scales.data();
    auto const rule = to.rule;
    merge_rows(
        team, lanes, buckets, width, [=](std::uint32_t i) { return rule.measure(p[i]); }, merged<Rule>{rule});
    auto const stride = row_stride(width);
    team.for_each(buckets, [=](std::uint32_t j) { scales[j] = rule.finish(lanes[j * stride], width, A{}); });
  }

  /// The scale of a last bucket that is not full.
  template <class Team>
  PITH_SELDOM PITH_HD void measure_rest(Team const& team, memory& fast, A const* all, std::uint32_t bucket,
                                        std::uint32_t count, std::uint32_t width) const {
    auto const* const p = all + bucket * width;
    auto* const lanes = fast.lanes.data();
    auto* const scales = fast.scales.data();
    auto const rule = to.rule;
    auto const rest = count - bucket * width;
    merge_rows(
        team, lanes, 1u, rest, [=](std::uint32_t i) { return rule.measure(p[i]); }, merged<Rule>{rule});
    team.for_each(1u, [=](std::uint32_t) { scales[bucket] = rule.finish(lanes[0], rest, A{}); });
  }
};

/// The statistic of one tile of a bucket, part of a row by part; symbols too, where they need no scale.
template <class Rule, class Source, class A, std::uint32_t Span>
struct measure_tiles {
  static_assert(tile_lanes % Span == 0);
  static constexpr std::uint32_t block_span = tile;
  struct memory {
    fast_array<A, Span> room;
    fast_array<symbol_word<Rule::bits>, scale_free<Rule> ? Span : 1> symbols;
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
      auto* const symbols = fast.symbols.data();
      team.for_each(count, [=](std::uint32_t i) {
        symbols[i] = static_cast<symbol_word<Rule::bits>>(rule.code(p[i], refined_of<Rule, A>(), 0));
      });
      pack_symbols<Rule::bits>(team, symbols, count, to.bytes + (run.first + at) / group * Rule::bits);
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
    code_block<!scale_free<Rule>>(to, from, random, team, fast, first, p, count, count);
  }
};

/// What decoding reads: the symbols and scales of `ranks` payloads, `stride` bytes apart.
template <class Rule, class A>
struct parts_of {
  Rule rule;
  bucket_blocks over;
  std::uint8_t const* bytes;
  scale_of<Rule, A> const* scales;
  std::size_t stride;
  unsigned ranks;

  PITH_HD std::uint8_t const* bytes_of(unsigned rank) const { return bytes + rank * stride; }
  PITH_HD scale_of<Rule, A> const* scales_of([[maybe_unused]] unsigned rank) const {
    if constexpr (!measures<Rule, A>) return nullptr;
    return reinterpret_cast<scale_of<Rule, A> const*>(reinterpret_cast<std::uint8_t const*>(scales) + rank * stride);
  }
};

/// x = factor times the sum of the parts' values, in order.
template <class Rule, class Sink, class A, std::uint32_t Span>
struct dequantize_block {
  static constexpr unsigned at_once = 4;  ///< ranks that are added up in registers

  struct memory {
    fast_array<A, Span> sum;
    fast_array<symbol_word<Rule::bits>, Rule::bits == 8 ? 1 : at_once * Span> symbols;
  };

  parts_of<Rule, A> from;
  Sink to;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const run = from.over.at(block);
    if constexpr (Team::specializes) {
      if (run.count == Span && run.width == 128) {
        return decode(team, fast, run, constant<Span>(), constant<128>());
      }
      if (run.count == Span && run.width >= Span) {
        return decode(team, fast, run, constant<Span>(), constant<Span>());
      }
    }
    decode(team, fast, run, run.count, run.width);
  }

 private:
  template <class Team, class Count, class Width>
  PITH_HD void decode(Team const& team, memory& fast, bucket_run const& run, Count count, Width width) const {
    if constexpr (Sink::takes_blocks) {
      sum_up(team, fast, run, count, width, from.ranks);
      to.store(team, run.first, count, fast.sum.data());
    } else {
      auto const sink = to;
      auto const first = run.first;
      auto const put = [=](std::uint32_t i, A sum) { sink.put(first + i, sum); };
      auto const last = from.ranks % at_once == 0 ? at_once : 1;
      sum_up(team, fast, run, count, width, from.ranks - last);
      if (last == 1) return add<1>(team, fast, run, count, width, from.ranks - last, put);
      add<at_once>(team, fast, run, count, width, from.ranks - last, put);
    }
  }

  /// The sum of the first `ranks` ranks.
  template <class Team, class Count, class Width>
  PITH_HD void sum_up(Team const& team, memory& fast, bucket_run const& run, Count count, Width width,
                      unsigned ranks) const {
    auto* const sum = fast.sum.data();
    auto const hold = [=](std::uint32_t i, A value) { sum[i] = value; };
    team.for_each(count, [=](std::uint32_t i) { sum[i] = -A{0}; });  // -0 + v is v, of either sign of zero
    unsigned rank = 0;
    for (; rank + at_once <= ranks; rank += at_once) add<at_once>(team, fast, run, count, width, rank, hold);
    for (; rank < ranks; ++rank) add<1>(team, fast, run, count, width, rank, hold);
  }

  /// use(i, the sum and what `Ranks` ranks sent), added in order.
  template <unsigned Ranks, class Team, class Count, class Width, class Use>
  PITH_HD void add(Team const& team, memory& fast, bucket_run const& run, Count count, Width width, unsigned rank,
                   Use const& use) const {
    symbol_word<Rule::bits> const* symbols[Ranks];
    scale_of<Rule, A> const* scales[Ranks];
    for (unsigned k = 0; k < Ranks; ++k) {
      auto const* const bytes = from.bytes_of(rank + k) + run.first / group * Rule::bits;
      symbols[k] = unpacked_symbols<Rule::bits>(team, bytes, count, fast.symbols.data() + k * Span);
      scales[k] = from.scales_of(rank + k) + run.bucket;
    }
    auto const* const before = fast.sum.data();
    auto const rule = from.rule;
    team.for_each_in(count, width, [=](std::uint32_t j) {
      scale_of<Rule, A> scale[Ranks];
      for (unsigned k = 0; k < Ranks; ++k) scale[k] = scale_at(scales[k], j);
      return [=](std::uint32_t i) {
        auto sum = before[i];
        for (unsigned k = 0; k < Ranks; ++k) sum += Sink::rounded(rule.value(symbols[k][i], scale[k]));
        use(i, sum);
      };
    });
  }
};

/// What the ranks sent, added in order and scaled: the source of an encoder that passes a sum on.
template <class Rule, class A>
struct sum_source {
  static constexpr bool keeps = false;

  parts_of<Rule, A> parts;
  A factor;

  template <class Team, class Count>
  PITH_HD A const* load(Team const& team, std::uint64_t first, Count count, A* room) const {
    auto const from = *this;
    team.for_each(static_cast<std::uint32_t>(groups(count)),
                  [=](std::uint32_t g) { from.sum_group(first / group + g, group_size(g, count), room + g * group); });
    return room;
  }

 private:
  /// A bucket is a whole number of groups, so that a group has one scale.
  PITH_HD void sum_group(std::uint64_t g, std::uint64_t count, A* sum) const {
    symbol_word<Rule::bits> symbols[group];
    for (std::uint64_t i = 0; i < count; ++i) sum[i] = -A{0};
    for (unsigned rank = 0; rank < parts.ranks; ++rank) {
      auto const scale = scale_at(parts.scales_of(rank), g * group / parts.over.bucket);
      unpack_group<Rule::bits>(parts.bytes_of(rank) + g * Rule::bits, count, symbols);
      for (std::uint64_t i = 0; i < count; ++i) sum[i] += parts.rule.value(symbols[i], scale);
    }
    for (std::uint64_t i = 0; i < count; ++i) sum[i] *= factor;
  }
};

}  // namespace pith::inline v0::detail
