// pith/quantize/code_block.hpp — what encoding a block writes: symbols, scales, and what a source hears of them.
#pragma once

#include <pith/core/call.hpp>
#include <pith/core/pack.hpp>
#include <pith/core/team.hpp>
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
  fast_array<symbol_word<Rule::bits>, sign_only<Rule> ? 1 : Span> symbols;
  fast_array<std::uint16_t, Rule::draws ? Span : 1> random;
  fast_array<refined_of<Rule, A>, Span / group> refined;
  fast_array<scale_of<Rule, A>, Span / group> scales;
  fast_array<statistic_of<Rule, A>, Span> lanes;  // a row of 2^k + 8 values is merged in 2^k lanes
};

/// Symbols of a block whose scales are known: coded, packed unless they are already, and told to the source as the
/// values they stand for. Loops have rows of `width`, of which 2^shift share a scale.
template <bool Packs, class Rule, class Source, class Team, class Memory, class A, class Count, class Width>
PITH_HD void code_block(quantized<Rule, A> const& to, Source const& from, draws const& random, Team const& team,
                        Memory& fast, std::uint64_t first, A const* p, Count count, Width width, int shift) {
  auto* const symbols = fast.symbols.data();
  auto const* const scales = fast.scales.data();
  auto const rule = to.rule;
  if constexpr (sign_only<Rule>) {
    if constexpr (Packs) team.negatives(p, count, to.bytes + first / group);
  } else {
    auto* const lots = fast.random.data();
    auto const* const refined = fast.refined.data();
    if constexpr (Rule::draws) team.random(random, first / group, static_cast<std::uint32_t>(groups(count)), lots);
    team.for_each_in(count, width, [=](std::uint32_t j) {
      auto const scale = refined[j >> shift];
      return [=](std::uint32_t i) {
        symbols[i] = static_cast<symbol_word<Rule::bits>>(rule.code(p[i], scale, Rule::draws ? lots[i] : 0));
      };
    });
    if constexpr (Packs) pack_symbols<Rule::bits>(team, symbols, count, to.bytes + first / group * Rule::bits);
  }
  if constexpr (Source::keeps) {
    auto* const sent = fast.room.data();
    team.for_each_in(count, width, [=](std::uint32_t j) {
      auto const scale = scales[j >> shift];
      return [=](std::uint32_t i) { sent[i] = rule.value(sign_only<Rule> ? p[i] < 0 : symbols[i], scale); };
    });
    from.keep(team, first, count, sent);
  }
}

}  // namespace pith::inline v0::detail
