// pith/lowrank/detail/prefetch.hpp — a prefetch of short pieces of matrix rows.
#pragma once

#include <pith/core/source.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Prefetches `count` elements of each of `rows` rows. The rows are `pitch` elements apart. The CPU itself does not
/// prefetch such short runs.
template <class T>
PITH_HD inline void prefetch_rows(T const* first, std::uint64_t pitch, std::uint32_t rows, std::uint32_t count) {
  constexpr std::uint32_t at_once = 64 / sizeof(T);
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t j = 0; j < count; j += at_once) PITH_PREFETCH(first + row * pitch + j);
  }
}
template <class In>
PITH_HD inline void prefetch_rows(plain_source<In> const& from, std::uint64_t pitch, std::uint32_t rows,
                                  std::uint32_t count) {
  prefetch_rows(from.x, pitch, rows, count);
}
template <class In, class Stored>
PITH_HD inline void prefetch_rows(residual_source<In, Stored> const& from, std::uint64_t pitch, std::uint32_t rows,
                                  std::uint32_t count) {
  prefetch_rows(from.g, pitch, rows, count);
  prefetch_rows(from.residual, pitch, rows, count);
}

}}}  // namespace pith::PITH_ABI::detail
