// pith/core/source.hpp — where an engine takes values from and puts them, block by block.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/team.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// A tensor as it is.
///
///   load(team, first, count, p)      p[i] = the value at first + i
///   keep(team, first, count, sent)   if `keeps`: what was sent of it; `sent` may be changed
template <class In>
struct plain_source {
  static constexpr bool keeps = false;

  In const* x;

  PITH_HD accum<In> operator()(std::uint64_t i) const { return element_cast<accum<In>>(x[i]); }

  template <class Team, class Count>
  PITH_HD void load(Team const& team, std::uint64_t first, Count count, accum<In>* p) const {
    auto const* const from = x + first;
    team.for_each(count, [=](std::uint32_t i) { p[i] = element_cast<accum<In>>(from[i]); });
  }
};

/// A tensor that decoding writes: the sum of `ranks` payloads, times a factor.
template <class In>
struct tensor_sink {
  In* x;
  accum<In> factor;

  /// A rank's value, as it would have been decoded alone.
  PITH_HD static accum<In> rounded(accum<In> value) { return element_cast<accum<In>>(element_cast<In>(value)); }

  template <class Team, class Count>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, accum<In> const* sum) const {
    auto* const to = x + first;
    auto const times = factor;
    team.for_each(count, [=](std::uint32_t i) { to[i] = element_cast<In>(times * sum[i]); });
  }
};

}  // namespace pith::inline v0::detail
