// pith/quantize/detail/code_block.hpp — the encoding of a block to symbols and scales.
#pragma once

#include <pith/core/detail/pack.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/team.hpp>
#include <pith/quantize/detail/best_scales.hpp>
#include <pith/quantize/detail/bucket_blocks.hpp>
#include <pith/quantize/quantizer_rule.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

template <class Rule>
struct merged {
  Rule rule;
  template <class T>
  PITH_HD T operator()(T const& a, T const& b) const {
    return rule.merge(a, b);
  }
};

template <class Rule, class A>
struct quantized {
  Rule rule;
  bucket_blocks over;
  std::uint8_t* bytes;
  scale_of<Rule, A>* scales;
};

template <class Rule, class A, std::uint32_t Span>
struct quantizer_memory : candidate_memory<Rule, A, Span / octet> {
  fast_array<A, Span> room;
  fast_array<symbol_word<Rule::bits>, sign_only<Rule> ? 1 : Span> symbols;
  fast_array<std::uint16_t, Rule::draws ? Span : 1> random;
  fast_array<refined_of<Rule, A>, Span / octet> refined;
  fast_array<scale_of<Rule, A>, Span / octet> scales;
  fast_array<statistic_of<Rule, A>, Span> lanes;  // a bucket of 2^k + 8 values needs 2^k lanes (row_stride)
};

/// Encodes a block whose scales are known. If the source has residual write-back (core/source.hpp), also stores the
/// decoded values in `fast.room`. Each thread reads an octet (8 elements), encodes the octet and writes its symbols.
/// Every `width` elements share a scale.
template <bool Packs, bool Keeps, class Rule, class Team, class Memory, class A>
PITH_HD void code_octets(quantized<Rule, A> const& to, draws const& random, Team const& team, Memory& fast,
                         std::uint64_t first, A const* p, std::uint32_t count, std::uint32_t width) {
  constexpr std::size_t packed = Rule::bits;
  auto* const bytes = to.bytes + first / octet * packed;
  auto* const sent = fast.room.data();
  auto const* const scales = fast.scales.data();
  auto const* const refined = fast.refined.data();
  auto const rule = to.rule;
  team.for_each_run(
      count, is_vector_aligned(p) && lie_well_packed<packed>(bytes), [=](std::uint32_t i, auto const& run) {
        auto const x = run.read(p + i);
        auto const j = i / width;
        auto const scale = refined[j];
        auto random_bits = random_block();
        if constexpr (Rule::draws) random_bits = random((first + i) / octet);
        symbol_word<Rule::bits> symbols[octet] = {};
        for (unsigned lane = 0; lane < octet; ++lane) {
          if (lane < run.count())
            symbols[lane] = static_cast<symbol_word<Rule::bits>>(rule.code(x[lane], scale, random_bits.lane(lane)));
        }
        if constexpr (Packs) run.template pack<Rule::bits>(symbols, bytes + i / octet * packed);
        if constexpr (Keeps)
          run.write(sent + i, [&](std::uint32_t lane) { return rule.value(symbols[lane], scales[j]); });
      });
}

/// Encodes a block whose scales are known, in several passes that the compiler vectorizes. An inner loop processes a
/// row of `width` elements. Every 2^shift rows share a scale.
template <bool Packs, bool Keeps, class Rule, class Team, class Memory, class A, class Count, class Width>
PITH_HD void code_passes(quantized<Rule, A> const& to, draws const& random, Team const& team, Memory& fast,
                         std::uint64_t first, A const* p, Count count, Width width, int shift) {
  auto* const symbols = fast.symbols.data();
  auto const* const scales = fast.scales.data();
  auto const rule = to.rule;
  if constexpr (sign_only<Rule>) {
    if constexpr (Packs) team.pack_signs(p, count, to.bytes + first / octet);
  } else {
    auto* const random_bits = fast.random.data();
    auto const* const refined = fast.refined.data();
    if constexpr (Rule::draws)
      team.random(random, first / octet, static_cast<std::uint32_t>(octets(count)), random_bits);
    team.for_each_in(count, width, [=](std::uint32_t j) {
      auto const scale = refined[j >> shift];
      return [=](std::uint32_t i) {
        symbols[i] = static_cast<symbol_word<Rule::bits>>(rule.code(p[i], scale, Rule::draws ? random_bits[i] : 0));
      };
    });
    if constexpr (Packs) pack_symbols<Rule::bits>(team, symbols, count, to.bytes + first / octet * Rule::bits);
  }
  if constexpr (Keeps) {
    auto* const sent = fast.room.data();
    team.for_each_in(count, width, [=](std::uint32_t j) {
      auto const scale = scales[j >> shift];
      return [=](std::uint32_t i) { sent[i] = rule.value(sign_only<Rule> ? p[i] < 0 : symbols[i], scale); };
    });
  }
}

/// Encodes a block whose scales are known. Computes the symbols, and packs the symbols if `Packs` is true. If the
/// source has residual write-back (core/source.hpp), passes the decoded values to the source. Every `width` elements
/// share a scale. An inner loop processes `row` elements.
template <bool Packs, class Rule, class Source, class Team, class Memory, class A, class Count, class Row>
PITH_HD void code_block(quantized<Rule, A> const& to, Source const& from, draws const& random, Team const& team,
                        Memory& fast, std::uint64_t first, A const* p, Count count, std::uint32_t width, Row row) {
  if constexpr (Team::by_octets && !sign_only<Rule>) {
    code_octets<Packs, Source::stores_residual>(to, random, team, fast, first, p, count, width);
  } else {
    code_passes<Packs, Source::stores_residual>(to, random, team, fast, first, p, count, row, rows_shift(width, row));
  }
  if constexpr (Source::stores_residual) from.store_residual(team, first, count, fast.room.data());
}

}}}  // namespace pith::PITH_ABI::detail
