// pith/codec/detail/rank_sum.hpp — the sum of all ranks' values, in one pass.
#pragma once

#include <pith/core/detail/split_factor.hpp>
#include <pith/core/element.hpp>
#include <pith/core/source.hpp>
#include <pith/core/team.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Sets x to factor times the sum of the ranks' values of type T, added in accum<In> and in rank order. The values of
/// two neighbouring ranks are `stride` bytes apart.
template <class In, class T>
struct rank_sum {
  static constexpr std::uint32_t items_per_block = 512;
  struct memory {
    accum<In> sums[items_per_block];
  };

  T const* values;
  std::size_t stride;
  unsigned ranks;
  split_factor<accum<In>> by;
  In* x;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * items_per_block;
    auto const count = block_size(n, first, items_per_block);
    auto const factor = by;
    auto* const sums = fast.sums;
    auto* const to = x + first;
    auto const* const own = values + first;
    // Like the sum of decoded payloads, the sum begins at 0, so that the sum of negative zeros is 0.
    team.for_each(count, [=](std::uint32_t i) { sums[i] = factor.before * (accum<In>{0} + decoded(own[i])); });
    for (unsigned rank = 1; rank < ranks; ++rank) {
      auto const* const from = of_rank(rank) + first;
      team.for_each(count, [=](std::uint32_t i) { sums[i] += factor.before * decoded(from[i]); });
    }
    team.for_each(count, [=](std::uint32_t i) { to[i] = saturated_cast<In>(factor.of(sums[i])); });
  }

 private:
  /// The value as a decoder of one payload returns it, which rounds to In.
  PITH_HD static accum<In> decoded(T value) {
    auto const wide = element_cast<accum<In>>(value);
    if constexpr (std::same_as<T, In> || std::same_as<In, accum<In>>) {
      return wide;
    } else {
      return ext::tensor_sink<In>::rounded(wide);
    }
  }
  PITH_HD T const* of_rank(unsigned rank) const {
    return reinterpret_cast<T const*>(reinterpret_cast<std::byte const*>(values) + rank * stride);
  }
};

/// Runs rank_sum for a tensor of n elements.
template <class In, class T, class E>
void sum_ranks(E const& exec, T const* values, std::size_t stride, unsigned ranks, accum<In> factor, In* x,
               std::uint64_t n) {
  using body = rank_sum<In, T>;
  exec.for_each_block(blocks_for(n, body::items_per_block),
                      body{values, stride, ranks, split_factor(factor, ranks), x, n});
}

}}}  // namespace pith::PITH_ABI::detail
