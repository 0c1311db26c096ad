// pith/quantize/detail/summed_levels.hpp — conversion of symbols to small integers, which an all-reduce sums.
#pragma once

#include <pith/codec/rounds.hpp>
#include <pith/core/detail/pack.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/team.hpp>
#include <pith/quantize/quantizer_rule.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The integer type of a sum of `ranks` levels from {-1, 0, 1}: 8 bits for up to 127 ranks, else 32 bits.
constexpr element_kind level_kind(unsigned ranks) { return ranks <= 127 ? element_kind::i8 : element_kind::i32; }

/// Calls f with a value of the integer type level_kind(ranks).
template <class F>
void with_level(unsigned ranks, F const& f) {
  return level_kind(ranks) == element_kind::i8 ? f(std::int8_t{}) : f(std::int32_t{});
}

/// Sets to[i] to the level of x[i], which is the integer that the symbol of x[i] represents. `scale` may be null for a
/// rule without scales.
template <class Rule, class In, class Level, std::uint32_t Span>
struct write_levels {
  using A = accum<In>;
  struct memory {
    fast_array<std::uint16_t, Rule::draws ? Span : 1> random;
  };

  Rule rule;
  draws from;
  scale_of<Rule, A> const* scale;
  In const* x;
  Level* to;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * Span;
    auto const count = block_size(n, first, Span);
    auto* const random_bits = fast.random.data();
    if constexpr (Rule::draws) team.random(from, first / octet, static_cast<std::uint32_t>(octets(count)), random_bits);
    auto const own = rule;
    auto const refined = refine(rule, scale_at(scale, 0));
    auto const* const in = x + first;
    auto* const out = to + first;
    team.for_each(count, [=](std::uint32_t i) {
      auto const symbol = own.code(element_cast<A>(in[i]), refined, Rule::draws ? random_bits[i] : std::uint16_t{0});
      out[i] = static_cast<Level>(own.level(symbol));
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
