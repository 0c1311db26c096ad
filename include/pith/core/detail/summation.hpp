// pith/core/detail/summation.hpp — the library's only summation order, which makes sums bitwise equal on all executors.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/core/team.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A tile is 16,384 values in 8 rows of 2,048 values. Lane i consists of value i of each row. First, the values of each
/// lane are merged in the order of rows. Then the upper half of the lanes is merged into the lower half, repeatedly,
/// until one lane is left. The results of all tiles are reduced in the same way.
inline constexpr std::uint32_t tile_lanes = 2048;
inline constexpr std::uint32_t tile_rows = 8;
inline constexpr std::uint32_t tile = tile_lanes * tile_rows;

/// The largest power of two below n; 0 if n < 2.
PITH_HD constexpr std::uint32_t half_of(std::uint32_t n) {
  std::uint32_t half = n < 2 ? 0 : 1;
  while (n > 2 && half < n - half) half *= 2;
  return half;
}

/// On a device, one warp merges the last 256 lanes, without barriers.
template <team Team, class T, class Merge>
PITH_HD void merge_lanes(Team const& team, T* lane, std::uint32_t count, Merge merge) {
  for (auto half = half_of(count); half > 0; count = half, half /= 2) {
    if constexpr (Team::by_octets) {
      if (count == 256) {
        return team.merge_rows(
            lane, 1u, 1u, constant<256>(), [=](std::uint32_t i) { return lane[i]; }, merge);
      }
    }
    team.for_each(count - half, [=](std::uint32_t i) { lane[i] = merge(lane[i], lane[i + half]); });
  }
}
template <team Team, class T, class Merge, std::uint32_t Count>
PITH_HD void merge_lanes(Team const& team, T* lane, constant<Count>, Merge merge) {
  if constexpr (Count > 1) {
    constexpr auto half = Count / 2;
    static_assert(Count % 2 == 0);
    team.for_each(constant<half>(), [=](std::uint32_t i) { lane[i] = merge(lane[i], lane[i + half]); });
    merge_lanes(team, lane, constant<half>(), merge);
  }
}

/// Sets lane[0] to the merge of f(i) over i < count, where 1 <= count <= tile. `lane` has space for min(count,
/// tile_lanes) values.
template <team Team, class T, class F, class Merge>
PITH_HD void reduce_tile(Team const& team, T* lane, std::uint32_t count, F const& f, Merge merge) {
  auto const lanes = count < tile_lanes ? count : tile_lanes;
  team.for_each(lanes, [&](std::uint32_t i) { lane[i] = f(i); });
  for (auto row = tile_lanes; row < count; row += tile_lanes) {
    auto const width = count - row < tile_lanes ? count - row : tile_lanes;
    team.for_each(width, [&](std::uint32_t i) { lane[i] = merge(lane[i], f(row + i)); });
  }
  merge_lanes(team, lane, lanes, merge);
}

/// The distance between the results of two rows in `merge_rows`: if rows have `width` values, the result of row r is
/// stored in lanes[row_stride(width) r].
PITH_HD constexpr std::uint32_t row_stride(std::uint32_t width) { return width < 2 ? 1 : half_of(width); }

/// In each row, merges lanes [half, 2 half) into lanes [0, half), and repeats this with half / 2, half / 4, ..., 1.
/// Rows are `stride` apart.
template <team Team, class T, class Stride, class Merge>
PITH_HD void fold_rows(Team const& team, T* lanes, std::uint32_t rows, Stride stride, std::uint32_t half, Merge merge) {
  for (; half > 0; half /= 2) {
    team.for_each_in(rows * half, half, [=](std::uint32_t r) {
      auto* const lane = lanes + r * stride - r * half;
      return [=](std::uint32_t i) { lane[i] = merge(lane[i], lane[i + half]); };
    });
  }
}
template <team Team, class T, class Stride, std::uint32_t Half, class Merge>
PITH_HD void fold_rows(Team const& team, T* lanes, std::uint32_t rows, Stride stride, constant<Half> half,
                       Merge merge) {
  if constexpr (Half > 0) {
    team.for_each_in(rows * Half, half, [=](std::uint32_t r) {
      auto* const lane = lanes + r * stride - r * Half;
      return [=](std::uint32_t i) { lane[i] = merge(lane[i], lane[i + Half]); };
    });
    fold_rows(team, lanes, rows, stride, constant<Half / 2>(), merge);
  }
}

/// For each row, merges value `half + j` into lane j, for j < `upper`. A row has `half` lanes. f returns the `half +
/// upper` values of a row.
template <team Team, class T, class F, class Merge>
PITH_HD void merge_upper(Team const& team, T* lanes, std::uint32_t rows, std::uint32_t half, std::uint32_t upper,
                         F const& f, Merge merge) {
  team.for_each_in(rows * upper, upper, [=](std::uint32_t r) {
    auto* const lane = lanes + r * (half - upper);
    auto const skip = (r + 1) * half;
    return [=](std::uint32_t i) { lane[i] = merge(lane[i], f(i + skip)); };
  });
}

/// Merges the lanes of one row in one thread, first lanes [half, 2 half) into lanes [0, half), and returns the result.
/// With a constant `half`, all loops have constant lengths.
template <class T, class Merge>
PITH_HD T fold_row(T* lane, constant<0>, Merge const&) {
  return lane[0];
}
template <std::uint32_t Half, class T, class Merge>
PITH_HD T fold_row(T* lane, constant<Half>, Merge const& merge) {
  PITH_NO_UNROLL
  for (std::uint32_t i = 0; i < Half; ++i) lane[i] = merge(lane[i], lane[i + Half]);
  return fold_row(lane, constant<Half / 2>(), merge);
}
template <class T, class Merge>
PITH_HD T fold_row(T* lane, std::uint32_t half, Merge const& merge) {
  for (; half > 0; half /= 2) {
    if (half == 8) return fold_row(lane, constant<8>(), merge);
    for (std::uint32_t i = 0; i < half; ++i) lane[i] = merge(lane[i], lane[i + half]);
  }
  return lane[0];
}

/// Returns the merge of f(at) .. f(at + width - 1), which one thread computes. The lanes are a local array, because
/// stores to a local array cannot alias the input of f.
template <class T, std::uint32_t Width, class F, class Merge>
PITH_HD T merge_row(constant<Width>, F const& f, std::uint32_t at, Merge const& merge) {
  constexpr auto half = Width / 2;
  static_assert(Width > 1 && 2 * half == Width && row_stride(Width) == half);
  T lane[half];
  for (std::uint32_t i = 0; i < half; ++i) lane[i] = merge(f(at + i), f(at + half + i));
  return fold_row(lane, constant<half / 2>(), merge);
}
template <class T, class F, class Merge>
PITH_HD T merge_row(std::uint32_t width, F const& f, std::uint32_t at, Merge const& merge) {
  auto const half = row_stride(width), upper = width - half;
  T lane[tile_lanes / 2];
  for (std::uint32_t i = 0; i < upper; ++i) lane[i] = merge(f(at + i), f(at + half + i));
  for (std::uint32_t i = upper; i < half; ++i) lane[i] = f(at + i);
  return fold_row(lane, half / 2, merge);
}

/// For each r < rows, sets lanes[row_stride(width) r] to the merge of f(r width + i) over i < width, where width <=
/// tile_lanes. The last overload is for teams of one thread, which merge the rows one by one.
template <team Team, class T, class F, class Merge>
  requires(!std::derived_from<Team, serial_team>)
PITH_HD void merge_rows(Team const& team, T* lanes, std::uint32_t rows, std::uint32_t width, F const& f, Merge merge) {
  auto const half = row_stride(width);
  auto const upper = width - half;
  if (upper == half) {
    team.for_each_in(rows * half, half, [=](std::uint32_t r) {
      auto const skip = r * half;
      return [=](std::uint32_t i) { lanes[i] = merge(f(i + skip), f(i + skip + half)); };
    });
  } else {
    team.for_each_in(rows * half, half, [=](std::uint32_t r) {
      auto const skip = r * upper;
      return [=](std::uint32_t i) { lanes[i] = f(i + skip); };
    });
    if (upper > 0) merge_upper(team, lanes, rows, half, upper, f, merge);
  }
  fold_rows(team, lanes, rows, half, half / 2, merge);
}
template <team Team, class T, std::uint32_t Width, class F, class Merge>
  requires Team::by_octets
PITH_HD void merge_rows(Team const& team, T* lanes, std::uint32_t rows, constant<Width> width, F const& f,
                        Merge merge) {
  team.merge_rows(lanes, row_stride(width), rows, width, f, merge);
}
template <team Team, class T, class Width, class F, class Merge>
  requires(std::derived_from<Team, serial_team>)
PITH_HD void merge_rows(Team const&, T* lanes, std::uint32_t rows, Width width, F const& f, Merge merge) {
  auto const stride = row_stride(width);
  for (std::uint32_t r = 0; r < rows; ++r) lanes[r * stride] = merge_row<T>(width, f, r * width, merge);
}

PITH_HD constexpr std::uint64_t tiles(std::uint64_t n) { return n / tile + (n % tile != 0); }

/// Sets values[0] to the merge of values[0 .. n), tile by tile and in place.
template <team Team, class T, class Merge>
PITH_HD void reduce_values(Team const& team, T* lane, T* values, std::uint64_t n, Merge merge) {
  while (n > 1) {
    std::uint64_t done = 0;
    for (std::uint64_t first = 0; first < n; first += tile, ++done) {
      auto const count = static_cast<std::uint32_t>(n - first < tile ? n - first : tile);
      reduce_tile(
          team, lane, count, [=](std::uint32_t i) { return values[first + i]; }, merge);
      team.for_each(1u, [=](std::uint32_t) { values[done] = lane[0]; });
    }
    n = done;
  }
}

/// Sets partial[t] to the merge of f over tile t.
template <class T, class F, class Merge>
struct reduce_tiles {
  static constexpr std::uint32_t items_per_block = tile;
  using memory = fast_array<T, tile_lanes>;
  F f;
  Merge merge;
  T* partial;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t t) const {
    auto const first = t * tile;
    auto const count = static_cast<std::uint32_t>(n - first < tile ? n - first : tile);
    auto* const lane = fast.data();
    auto const term = f;
    reduce_tile(
        team, lane, count, [=](std::uint32_t i) { return term(first + i); }, merge);
    team.for_each(1u, [&](std::uint32_t) { partial[t] = lane[0]; });
  }
};

template <class T, class Merge>
struct reduce_partials {
  using memory = fast_array<T, tile_lanes>;
  T* partial;
  T* out;
  Merge merge;
  T none;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t) const {
    reduce_values(team, fast.data(), partial, n, merge);
    team.for_each(1u, [&](std::uint32_t) { *out = n == 0 ? none : partial[0]; });
  }
};

template <class T>
constexpr std::size_t reduce_scratch_bytes(std::uint64_t n) {
  return scratch_for<T>(tiles(n));
}

/// Sets *out to the merge of f(i) over i < n, in the order of this header (see `tile`). If n is 0, sets *out to `none`.
template <class T, executor E, class F, class Merge>
void reduce_into(E const& exec, T* out, std::uint64_t n, F const& f, Merge merge, T none, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto* const partial = ws.template take<T>(tiles(n)).data;
  exec.for_each_block(tiles(n), reduce_tiles<T, F, Merge>{f, merge, partial, n});
  exec.for_each_block(1, reduce_partials<T, Merge>{partial, out, merge, none, tiles(n)});
}

struct plus {
  PITH_HD constexpr double operator()(double a, double b) const { return a + b; }
};

struct larger {
  PITH_HD constexpr double operator()(double a, double b) const { return larger_or_nan(a, b); }
};

}}}  // namespace pith::PITH_ABI::detail
