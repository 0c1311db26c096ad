// pith/lowrank/detail/thin.hpp — shapes of a matrix and its thin factors, and loops over groups of columns.
#pragma once

#include <pith/config.hpp>
#include <pith/core/span.hpp>
#include <pith/core/team.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The shapes of a matrix M (rows x columns) and its thin factors P (rows x rank) and Q (columns x rank). M, P and Q
/// are row-major.
struct thin_shape {
  std::uint64_t rows, columns, rank;
};

/// The average number of elements of M that a block processes.
constexpr std::uint64_t thin_elements(thin_shape const& size, std::uint64_t blocks) {
  return blocks == 0 ? 0 : size.rows * size.columns / blocks;
}

/// `thin_group` is the number of columns of P or Q in a group, which a loop processes at once. `thin_strip` is the
/// number of elements in a strip, which is a run of consecutive elements of a row that a block processes at once.
inline constexpr std::uint32_t thin_group = 4;
inline constexpr std::uint32_t thin_strip = 512;

/// The strip length of loops over several rows in the memory `Space`. `Two` is true if a source or sink consists of two
/// tensors. With two tensors, a host reads short strips of many rows at three quarters of the speed of long strips.
/// Hosts therefore use longer strips in this case. Devices always use short strips, because they need small blocks.
template <memory_space Space, bool Two>
inline constexpr std::uint32_t strip_of_rows = (Two && std::same_as<Space, host_space>) ? 2048 : thin_strip;

/// The number of blocks per multiprocessor. For floats, the number is two, because four blocks leave too few registers
/// for sums in double precision. For doubles, the number is one, because two blocks leave too few registers for
/// products of doubles.
template <class A>
inline constexpr unsigned thin_resident_blocks = sizeof(A) == 8 ? 1 : 2;

/// The number of threads of a device's team. Bodies that keep sums in registers loop over these threads.
inline constexpr std::uint32_t device_threads = 256;

/// Calls f(constant<0>()), f(constant<1>()), ... without a loop. The compiler vectorizes the surrounding loop only if
/// its inner loops are unrolled.
template <std::uint32_t... I, class F>
PITH_HD inline void write_out(std::integer_sequence<std::uint32_t, I...>, F const& f) {
  (f(constant<I>()), ...);
}
template <std::uint32_t N, class F>
PITH_HD inline void write_out(F const& f) {
  write_out(std::make_integer_sequence<std::uint32_t, N>(), f);
}

/// Calls f(c, width) for each group of columns [c, c + width): for the groups of `thin_group` columns, and then for a
/// smaller last group, if there is one.
template <class F>
PITH_HD void for_each_group(std::uint64_t rank, F const& f) {
  std::uint64_t c = 0;
  for (; rank - c >= thin_group; c += thin_group) f(c, constant<thin_group>());
  if (rank - c == 1) f(c, constant<1>());
  if (rank - c == 2) f(c, constant<2>());
  if (rank - c == 3) f(c, constant<3>());
}

PITH_HD constexpr std::uint32_t at_most(std::uint64_t n, std::uint32_t most) {
  return n < most ? static_cast<std::uint32_t>(n) : most;
}

/// A copy of `Width` elements of each of `Rows` rows of a thin matrix, as doubles.
template <std::uint32_t Rows, std::uint32_t Width>
struct thin_rows {
  template <class A>
  PITH_HD thin_rows(A const* p, std::uint64_t rank) {
    write_out<Rows * Width>([&](auto k) { at[k] = static_cast<double>(p[k / Width * rank + k % Width]); });
  }
  double at[Rows * Width];
};

}}}  // namespace pith::PITH_ABI::detail
