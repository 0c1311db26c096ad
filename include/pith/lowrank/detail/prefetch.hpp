// pith/lowrank/detail/prefetch.hpp — rows of a matrix, asked for before a host needs them.
#pragma once

#include <pith/codec/detail/source.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

/// `count` elements of each of `rows` rows that lie `pitch` apart: pieces too short for a CPU to see a stream in them.
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
template <class In>
PITH_HD inline void prefetch_rows(residual_source<In> const& from, std::uint64_t pitch, std::uint32_t rows,
                                  std::uint32_t count) {
  prefetch_rows(from.g, pitch, rows, count);
  prefetch_rows(from.residual, pitch, rows, count);
}

}  // namespace pith::inline v0::detail
