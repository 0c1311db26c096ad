// pith/vector_quantize/detail/slices.hpp — gather and scatter of a tensor's slices.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Copies the slices of a tensor with n elements to contiguous memory. Converts the elements to accum<In>, and pads the
/// last slice with zeros.
template <class In>
struct gather_slices {
  static constexpr std::uint32_t items_per_block = 512;
  struct memory {};

  In const* x;
  accum<In>* to;
  std::uint64_t n, padded;
  slice_order order;

  PITH_HD std::uint64_t blocks() const { return blocks_for(padded, items_per_block); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const first = block * items_per_block;
    auto const count = block_size(padded, first, items_per_block), used = first < n ? block_size(n, first, count) : 0;
    auto const* const from = x;
    auto* const out = to + first;
    order.walk(team, first, used,
               [=](std::uint32_t i, std::uint64_t at) { out[i] = element_cast<accum<In>>(from[at]); });
    team.for_each(count - used, [=](std::uint32_t i) { out[used + i] = 0; });
  }
};

/// A sink for decoded slices. The sink adds `offset` to the values, and writes each value to its index in the tensor.
/// The padding of the last slice is not written.
template <class In>
struct slice_sink {
  static constexpr bool takes_blocks = true;

  In* x;
  std::uint64_t n;
  slice_order order;
  accum<In> const* offset;
  std::uint64_t offsets;  ///< the size of `offset`: one slice if all slices share the offset, else all slices

  template <class Team, class Count>
  PITH_HD void store(Team const& team, std::uint64_t first, Count count, accum<In> const* values) const {
    auto const used = first < n ? block_size(n, first, count) : 0;
    auto* const to = x;
    auto const* const added = offset + first % offsets;
    order.walk(team, first, used,
               [=](std::uint32_t i, std::uint64_t at) { to[at] = element_cast<In>(values[i] + added[i]); });
  }
};

}}}  // namespace pith::PITH_ABI::detail
