// pith/quantize/detail/decode_block.hpp — the decoding of a block from one or more ranks' payloads.
#pragma once

#include <pith/core/detail/pack.hpp>
#include <pith/core/team.hpp>
#include <pith/quantize/detail/bucket_blocks.hpp>
#include <pith/quantize/quantizer_rule.hpp>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The input of the decoder: the symbols and scales of `ranks` payloads, which are `stride` bytes apart.
template <class Rule, class A>
struct parts_of {
  Rule rule;
  bucket_blocks over;
  std::uint8_t const* bytes;
  scale_of<Rule, A> const* scales;
  std::size_t stride;
  unsigned ranks;
  A before = 1;  ///< the power of two by which decoded values are multiplied (split_factor.hpp)

  /// The factor of a rank's decoded values: `before`, times the scale of the tensor, which lies before the scales.
  PITH_HD A factor_of([[maybe_unused]] unsigned rank) const {
    if constexpr (has_tensor_scale<Rule>) {
      return before * reinterpret_cast<A const*>(scales_of(rank))[-1];
    } else {
      return before;
    }
  }
  /// Returns all[b], a scale of this rank, multiplied by the rank's factor if the rule has `scaled`.
  PITH_HD auto scale_of_bucket([[maybe_unused]] unsigned rank, scale_of<Rule, A> const* all, std::uint64_t b) const {
    if constexpr (scalable<Rule, A>) {
      return rule.scaled(scale_at(all, b), factor_of(rank));
    } else {
      return scale_at(all, b);
    }
  }
  PITH_HD std::uint8_t const* bytes_of(unsigned rank) const { return bytes + rank * stride; }
  PITH_HD scale_of<Rule, A> const* scales_of([[maybe_unused]] unsigned rank) const {
    if constexpr (!measures<Rule, A>) return nullptr;
    return reinterpret_cast<scale_of<Rule, A> const*>(reinterpret_cast<std::uint8_t const*>(scales) + rank * stride);
  }

  /// True if the symbols from element `first` on are aligned for vector access in every payload.
  PITH_HD bool lie_well_from(std::uint64_t first) const {
    auto const* const p = bytes + first / octet * Rule::bits;
    return lie_well_packed<Rule::bits>(p) && (ranks == 1 || lie_well_packed<Rule::bits>(p + stride));
  }

  /// Sets sum[i] to the sum of the ranks' decoded values for element i of octet g. The octet belongs to bucket b.
  /// `Sink` rounds each value before the addition. Values are added in rank order.
  template <class Sink, class Run>
  PITH_HD void sum_octet(std::uint64_t g, std::uint64_t b, Run const& run, A* sum) const {
    for (unsigned i = 0; i < octet; ++i) sum[i] = -A{0};  // -0 + v is v, also if v is 0 or -0
    for (unsigned rank = 0; rank < ranks; ++rank) {
      symbol_word<Rule::bits> symbols[octet] = {};
      auto const scale = scale_of_bucket(rank, scales_of(rank), b);
      run.template unpack<Rule::bits>(bytes_of(rank) + g * Rule::bits, symbols);
      for (unsigned i = 0; i < octet; ++i) sum[i] += Sink::rounded(rule.value(symbols[i], scale));
    }
  }
};

/// Decodes the payloads of all ranks, adds the values in rank order, and writes the sums to the sink.
template <class Rule, class Sink, class A, std::uint32_t Span>
struct dequantize_block {
  static constexpr unsigned at_once = 4;  ///< the number of ranks whose values are summed in registers
  static constexpr unsigned resident_blocks = sizeof(A) > 4 ? 3 : Rule::bits == 1 ? 5 : 4;

  struct memory {
    fast_array<A, Span> sum;
    fast_array<symbol_word<Rule::bits>, Rule::bits == 8 ? 1 : at_once * Span> symbols;
  };

  parts_of<Rule, A> from;
  Sink to;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const run = from.over.at(block);
    if constexpr (Team::by_octets) {
      decode_octets(team, fast, run);
    } else {
      if constexpr (Team::specializes) {
        if (run.count == Span && run.width >= Span) {
          return decode(team, fast, run, constant<Span>(), constant<Span>());
        }
        constexpr auto row = short_row<Rule>;
        if (has_rows<row>(run, Span)) return decode(team, fast, run, constant<Span>(), constant<row>());
      }
      decode(team, fast, run, run.count, run.width);
    }
  }

 private:
  /// Each thread reads the symbols of one octet (8 elements) from all payloads, and writes the sums.
  template <class Team>
  PITH_HD void decode_octets(Team const& team, memory& fast, bucket_run const& run) const {
    auto* const sums = fast.sum.data();
    auto const parts = from;
    auto const sink = to;
    auto const own = run;
    auto well = parts.lie_well_from(run.first);
    if constexpr (!Sink::takes_blocks) well = well && is_vector_aligned(sink.x + run.first);
    team.for_each_run(run.count, well, [=](std::uint32_t i, auto const& neighbours) {
      A sum[octet];
      parts.template sum_octet<Sink>((own.first + i) / octet, own.bucket + i / own.width, neighbours, sum);
      if constexpr (Sink::takes_blocks) {
        neighbours.write(sums + i, [&](std::uint32_t lane) { return sum[lane]; });
      } else {
        sink.put_run(own.first + i, neighbours, sum);
      }
    });
    if constexpr (Sink::takes_blocks) to.store(team, run.first, run.count, sums);
  }

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

  /// Sets fast.sum[i] to the sum of the decoded values of element i over the first `ranks` payloads.
  template <class Team, class Count, class Width>
  PITH_HD void sum_up(Team const& team, memory& fast, bucket_run const& run, Count count, Width width,
                      unsigned ranks) const {
    auto* const sum = fast.sum.data();
    auto const hold = [=](std::uint32_t i, A value) { sum[i] = value; };
    team.for_each(count, [=](std::uint32_t i) { sum[i] = -A{0}; });  // -0 + v is v, also if v is 0 or -0
    unsigned rank = 0;
    for (; rank + at_once <= ranks; rank += at_once) add<at_once>(team, fast, run, count, width, rank, hold);
    for (; rank < ranks; ++rank) add<1>(team, fast, run, count, width, rank, hold);
  }

  /// Calls use(i, sum) for each element i, where `sum` is fast.sum[i] plus the decoded values of ranks
  /// rank .. rank + Ranks - 1, added in this order.
  template <unsigned Ranks, class Team, class Count, class Width, class Use>
  PITH_HD void add(Team const& team, memory& fast, bucket_run const& run, Count count, Width width, unsigned rank,
                   Use const& use) const {
    symbol_word<Rule::bits> const* symbols[Ranks];
    scale_of<Rule, A> const* scales[Ranks];
    for (unsigned k = 0; k < Ranks; ++k) {
      auto const* const bytes = from.bytes_of(rank + k) + run.first / octet * Rule::bits;
      symbols[k] = unpacked_symbols<Rule::bits>(team, bytes, count, fast.symbols.data() + k * Span);
      scales[k] = from.scales_of(rank + k) + run.bucket;
    }
    auto const* const before = fast.sum.data();
    auto const parts = from;
    auto const rule = from.rule;
    auto const shift = rows_shift(run.width, width);
    team.for_each_in(count, width, [=](std::uint32_t j) {
      decltype(parts.scale_of_bucket(0, nullptr, 0)) scale[Ranks];
      for (unsigned k = 0; k < Ranks; ++k) scale[k] = parts.scale_of_bucket(rank + k, scales[k], j >> shift);
      return [=](std::uint32_t i) {
        auto sum = before[i];
        for (unsigned k = 0; k < Ranks; ++k) sum += Sink::rounded(rule.value(symbols[k][i], scale[k]));
        use(i, sum);
      };
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
