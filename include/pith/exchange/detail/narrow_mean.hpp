// pith/exchange/detail/narrow_mean.hpp — the mean of 16-bit floats, which are added in float.
#pragma once

#include <pith/core/detail/split_factor.hpp>
#include <pith/core/element.hpp>
#include <pith/core/transfer.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Sets to[i] to the mean of element i of all ranks' pieces. The values are added in float, in rank order, and the mean
/// is rounded once.
template <class T>
struct average_pieces {
  T const* pieces;
  std::uint64_t n;  ///< number of elements per piece
  unsigned ranks;
  split_factor<float> share;  ///< 1 / ranks
  T* to;

  PITH_HD void operator()(std::uint64_t i) const {
    float sum = 0;
    for (unsigned r = 0; r < ranks; ++r) sum += share.before * element_cast<float>(pieces[r * n + i]);
    to[i] = element_cast<T>(share.after * sum);
  }
};

/// Computes the mean of the pieces that an all-to-all has moved to this rank. `to` has the size of one piece.
template <class E>
void average(E const& exec, element_kind kind, span_on<E, std::byte> pieces, unsigned ranks, std::byte* to) {
  auto const share = split_factor(1 / static_cast<float>(ranks), ranks);
  with_elements<space_of<E>>(kind, pieces.data(), pieces.size() / kind_bytes(kind), [&](auto all) {
    using T = typename decltype(all)::element_type;
    if constexpr (std::same_as<T, half> || std::same_as<T, bfloat16>) {
      auto const n = all.size() / ranks;
      exec.for_each_index(n, average_pieces<T>{all.data(), n, ranks, share, reinterpret_cast<T*>(to)});
    }
  });
}

}}}  // namespace pith::PITH_ABI::detail
