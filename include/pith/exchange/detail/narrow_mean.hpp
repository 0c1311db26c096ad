// pith/exchange/detail/narrow_mean.hpp — the mean of 16-bit floats, which are added in float.
#pragma once

#include <pith/codec/detail/rank_sum.hpp>
#include <pith/core/element.hpp>
#include <pith/core/transfer.hpp>

#include <concepts>
#include <cstddef>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Computes the mean of the pieces that an all-to-all has moved to this rank. The values are added in float, and the mean
/// is rounded once. `to` has the size of one piece.
template <class E>
void average(E const& exec, element_kind kind, span_on<E, std::byte> pieces, unsigned ranks, std::byte* to) {
  auto const share = 1 / static_cast<float>(ranks);
  with_elements<space_of<E>>(kind, pieces.data(), pieces.size() / kind_bytes(kind), [&](auto all) {
    using T = typename decltype(all)::element_type;
    if constexpr (std::same_as<T, half> || std::same_as<T, bfloat16>) {
      auto const n = all.size() / ranks;
      sum_ranks(exec, all.data(), n * sizeof(T), ranks, share, reinterpret_cast<T*>(to), n);
    }
  });
}

}}}  // namespace pith::PITH_ABI::detail
