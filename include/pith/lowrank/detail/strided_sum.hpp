// pith/lowrank/detail/strided_sum.hpp — the sum of a few values that are far apart in memory.
#pragma once

#include <pith/core/span.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The number of elements that a thread loads before it uses the first of them. Few threads of a device compute a small
/// sum, so each of them needs many loads at the same time. A host's CPU reorders loads itself.
template <memory_space Space>
inline constexpr std::uint32_t loads_at_once = std::same_as<Space, device_space> ? 16 : 1;

/// Returns x[0] + x[stride] + ... + x[(n - 1) stride], added to zero in this order.
template <memory_space Space>
PITH_HD inline double strided_sum(double const* x, std::uint64_t stride, std::uint64_t n) {
  constexpr auto at_once = loads_at_once<Space>;
  double sum = 0;
  std::uint64_t k = 0;
  if constexpr (at_once > 1) {
    for (; k + at_once <= n; k += at_once) {
      double loaded[at_once];
      for (std::uint32_t i = 0; i < at_once; ++i) loaded[i] = x[(k + i) * stride];
      for (std::uint32_t i = 0; i < at_once; ++i) sum += loaded[i];
    }
  }
  for (; k < n; ++k) sum += x[k * stride];
  return sum;
}

}}}  // namespace pith::PITH_ABI::detail
