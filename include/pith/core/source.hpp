// pith/core/source.hpp — where an engine takes values from and puts them, block by block.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/team.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// A tensor as it is.
///
///   load(team, first, count, room)   values first .. first + count - 1, where they lie or in the room for them
///   keep(team, first, count, sent)   if `keeps`: what was sent of it; `sent` may be changed
template <class In>
struct plain_source {
  static constexpr bool keeps = false;

  In const* x;

  PITH_HD accum<In> operator()(std::uint64_t i) const { return element_cast<accum<In>>(x[i]); }

  template <class Team, class Count>
  PITH_HD accum<In> const* load(Team const& team, std::uint64_t first, Count count, accum<In>* room) const {
    auto const* const from = x + first;
    if constexpr (std::same_as<In, accum<In>>) {
      return from;
    } else {
      team.for_each(count, [=](std::uint32_t i) { room[i] = element_cast<accum<In>>(from[i]); });
      return room;
    }
  }
};

/// p = residual + g, taken and kept by an engine in the pass that encodes it.
template <class In>
struct residual_source {
  static constexpr bool keeps = true;

  In const* g;
  accum<In>* residual;
  accum<In> beta;

  template <class Team, class Count>
  PITH_HD accum<In> const* load(Team const& team, std::uint64_t first, Count count, accum<In>* p) const {
    auto const* const gradient = g + first;
    auto const* const kept = residual + first;
    team.for_each(count, [=](std::uint32_t i) { p[i] = kept[i] + element_cast<accum<In>>(gradient[i]); });
    return p;
  }
  template <class Team, class Count>
  PITH_HD void keep(Team const& team, std::uint64_t first, Count count, accum<In> const* sent) const {
    auto const* const gradient = g + first;
    auto* const kept = residual + first;
    auto const times = beta;
    team.for_each(count, [=](std::uint32_t i) {
      auto const unsent = (kept[i] + element_cast<accum<In>>(gradient[i])) - sent[i];
      kept[i] = is_finite(unsent) ? times * unsent : kept[i];
    });
  }
};

/// A tensor that decoding writes: the sum of the ranks' values, times a factor.
///
///   put(i, sum)                      one value; or, if it `takes_blocks`,
///   store(team, first, count, sum)   those of a block, which it may change
template <class In>
struct tensor_sink {
  static constexpr bool takes_blocks = false;

  In* x;
  accum<In> factor;

  /// A rank's value, as it would have been decoded alone.
  PITH_HD static accum<In> rounded(accum<In> value) { return element_cast<accum<In>>(element_cast<In>(value)); }

  PITH_HD void put(std::uint64_t i, accum<In> sum) const { x[i] = element_cast<In>(factor * sum); }
};

}  // namespace pith::inline v0::detail
