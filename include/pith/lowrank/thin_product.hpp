// pith/lowrank/thin_product.hpp — products of a matrix with thin ones, block by block, in double.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/summation.hpp>
#include <pith/lowrank/exact_product.hpp>
#include <pith/lowrank/prefetch.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pith::inline v0::detail {

/// A matrix M of rows x columns, and thin ones: P of rows x rank, Q of columns x rank. All lie row by row.
struct thin_shape {
  std::uint64_t rows, columns, rank;
};

/// How many of the rank's columns a loop takes at once, and how many elements of a row a block does.
inline constexpr std::uint32_t thin_group = 4;
inline constexpr std::uint32_t thin_strip = 512;

/// Sums in double take more registers than four blocks to a multiprocessor leave, products of doubles more than two.
template <class In>
inline constexpr unsigned thin_resident_blocks = sizeof(In) == 8 ? 1 : 2;

/// f(constant<0>()), f(constant<1>()) ..: the vectoriser takes a loop whose inner loops are written out.
template <std::uint32_t... I, class F>
PITH_HD inline void write_out(std::integer_sequence<std::uint32_t, I...>, F const& f) {
  (f(constant<I>()), ...);
}
template <std::uint32_t N, class F>
PITH_HD inline void write_out(F const& f) {
  write_out(std::make_integer_sequence<std::uint32_t, N>(), f);
}

/// f(c, width) for groups of columns [c, c + width) of the rank: full ones, then the rest.
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

/// `Width` entries of each of `Rows` rows of a thin matrix.
template <std::uint32_t Rows, std::uint32_t Width>
struct thin_rows {
  template <class A>
  PITH_HD thin_rows(A const* p, std::uint64_t rank) {
    write_out<Rows * Width>([&](auto k) { at[k] = static_cast<double>(p[k / Width * rank + k % Width]); });
  }
  double at[Rows * Width];
};

/// to[c columns + j] = q[j rank + c].
template <class A>
struct by_columns {
  A const* q;
  double* to;
  thin_shape size;
  PITH_HD void operator()(std::uint64_t i) const {
    to[i] = static_cast<double>(q[i % size.columns * size.rank + i / size.columns]);
  }
};

/// to[i] = the sum of `parts` values that lie `n` apart, in order.
template <class A>
struct add_parts {
  double const* partial;
  A* to;
  std::uint64_t n, parts;
  PITH_HD void operator()(std::uint64_t i) const {
    double sum = 0;
    for (std::uint64_t t = 0; t < parts; ++t) sum += partial[t * n + i];
    to[i] = static_cast<A>(sum);
  }
};

/// Parts of P = M Q, one of each `segment` columns: a sum has 32 lanes, which take each 32nd column in order and are
/// merged like those of a tile. Q is given by columns.
template <class In>
struct times_thin {
  static constexpr std::uint32_t lanes = 32, tall = 16, segment = 8192;
  static constexpr auto resident_blocks = thin_resident_blocks<In>;
  using memory = fast_array<double, tall * thin_group * lanes>;

  In const* m;
  double const* q;
  double* partial;
  thin_shape size;

  PITH_HD static constexpr std::uint64_t parts(thin_shape const& size) {
    return (size.columns + segment - 1) / segment;
  }
  PITH_HD std::uint64_t talls() const { return (size.rows + tall - 1) / tall; }
  PITH_HD std::uint64_t blocks() const { return talls() * parts(size); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const part = block / talls(), row = block % talls() * tall, column = part * segment;
    auto const rows = at_most(size.rows - row, tall), count = at_most(size.columns - column, segment);
    auto* const sums = fast.data();
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto* const to = partial + (part * size.rows + row) * size.rank + c;
      auto const rank = size.rank;
      team.for_each(rows * width * lanes, [=](std::uint32_t i) { sums[i] = 0; });
      add(team, sums, m + row * size.columns + column, q + c * size.columns + column, rows, count, width);
      fold_rows(team, sums, rows * width, constant<lanes>(), constant<lanes / 2>(), plus());
      team.for_each(rows * width, [=](std::uint32_t i) { to[i / width * rank + i % width] = sums[i * lanes]; });
    });
  }

 private:
  template <class Team, class Width>
  PITH_HD void add(Team const& team, double* sums, In const* a, double const* b, std::uint32_t rows,
                   std::uint32_t count, Width width) const {
    constexpr std::uint32_t steps = 4, chunk = steps * lanes;
    std::uint32_t j = 0;
    for (; j + chunk <= count; j += chunk) {
      auto const ahead = count - j >= 2 * chunk ? chunk : 0;
      add_rows<steps>(team, sums, a + j, b + j, rows, constant<lanes>(), width, ahead);
    }
    for (; j + lanes <= count; j += lanes) add_rows<1>(team, sums, a + j, b + j, rows, constant<lanes>(), width, 0);
    if (j < count) add_rows<1>(team, sums, a + j, b + j, rows, count - j, width, 0);
  }

  template <std::uint32_t Steps, class Team, class Count, class Width>
  PITH_HD void add_rows(Team const& team, double* sums, In const* a, double const* b, std::uint32_t rows, Count count,
                        Width width, std::uint32_t ahead) const {
    auto const even = rows / 2 * 2;
    add_steps<2, Steps>(team, sums, a, b, even / 2, count, width, ahead);
    if (even == rows) return;
    add_steps<1, Steps>(team, sums + even * width * lanes, a + even * size.columns, b, 1, count, width, ahead);
  }

  /// For `times` times `Rows` rows, `Steps` terms of each of `count` lanes.
  template <std::uint32_t Rows, std::uint32_t Steps, class Team, class Count, class Width>
  PITH_HD void add_steps(Team const& team, double* sums, In const* a, double const* b, std::uint32_t times, Count count,
                         Width width, std::uint32_t ahead) const {
    auto const pitch = size.columns;
    team.for_each_in(times * count, count, [=](std::uint32_t r) {
      auto const* const row = a + r * Rows * pitch;
      prefetch_rows(row + ahead, pitch, Rows, ahead);
      return lane_terms<Rows, Steps, Width>{row, b, sums + r * (Rows * width * lanes), pitch, r * count};
    });
  }

  /// Adds `Steps` terms to each of the sums that a lane has, `Width` in each of `Rows` rows.
  template <std::uint32_t Rows, std::uint32_t Steps, class Width>
  struct lane_terms;
  template <std::uint32_t Rows, std::uint32_t Steps, std::uint32_t Width>
  struct lane_terms<Rows, Steps, constant<Width>> {
    In const* row;
    double const* column;
    double* sums;
    std::uint64_t pitch;
    std::uint32_t first;

    PITH_HD void operator()(std::uint32_t i) const {
      auto const lane = i - first;
      double sum[Rows * Width];
      write_out<Rows * Width>([&](auto k) { sum[k] = sums[k * lanes + lane]; });
      write_out<Steps * Rows>([&](auto k) {
        constexpr std::uint32_t y = k % Rows, at = k / Rows * lanes;
        auto const value = element_cast<double>(row[y * pitch + at + lane]);
        write_out<Width>([&](auto c) {
          sum[y * Width + c] = add_product<accum<In>>(sum[y * Width + c], value, column[c * pitch + at + lane]);
        });
      });
      write_out<Rows * Width>([&](auto k) { sums[k * lanes + lane] = sum[k]; });
    }
  };
};

/// Parts of Q = M^T P, one of each slab of rows; rows are added in order.
template <class In>
struct transposed_times_thin {
  static constexpr auto resident_blocks = thin_resident_blocks<In>;
  using memory = fast_array<double, thin_group * thin_strip>;

  In const* m;
  accum<In> const* p;
  double* partial;
  thin_shape size;

  /// As many rows as make the parts an eighth of a byte for each element of M.
  PITH_HD static constexpr std::uint64_t slab(thin_shape const& size) { return 64 * size.rank; }
  PITH_HD static constexpr std::uint64_t parts(thin_shape const& size) {
    return (size.rows + slab(size) - 1) / slab(size);
  }
  PITH_HD std::uint64_t strips() const { return (size.columns + thin_strip - 1) / thin_strip; }
  PITH_HD std::uint64_t blocks() const { return strips() * parts(size); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const part = block / strips(), column = block % strips() * thin_strip, row = part * slab(size);
    auto const rows = size.rows - row < slab(size) ? size.rows - row : slab(size);
    auto const count = at_most(size.columns - column, thin_strip);
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto const* const a = m + row * size.columns + column;
      auto const* const b = p + row * size.rank + c;
      auto* const to = partial + (part * size.columns + column) * size.rank + c;
      if (count == thin_strip) {
        add(team, fast.data(), a, b, to, rows, constant<thin_strip>(), width);
      } else {
        add(team, fast.data(), a, b, to, rows, count, width);
      }
    });
  }

 private:
  template <class Team, class Count, std::uint32_t Width>
  PITH_HD void add(Team const& team, double* sums, In const* a, accum<In> const* b, double* to, std::uint64_t rows,
                   Count count, constant<Width> width) const {
    constexpr std::uint32_t steps = 4;
    auto const rank = size.rank;
    team.for_each(constant<Width * thin_strip>(), [=](std::uint32_t i) { sums[i] = 0; });
    std::uint64_t i = 0;
    for (; i + steps <= rows; i += steps) {
      if (rows - i >= 2 * steps) prefetch_rows(a + (i + steps) * size.columns, size.columns, steps, count);
      add_rows<steps>(team, sums, a + i * size.columns, b + i * rank, count, width);
    }
    for (; i < rows; ++i) add_rows<1>(team, sums, a + i * size.columns, b + i * rank, count, width);
    team.for_each(count, [=](std::uint32_t j) {
      write_out<Width>([&](auto c) { to[j * rank + c] = sums[c * thin_strip + j]; });
    });
  }

  template <std::uint32_t Rows, class Team, class Count, std::uint32_t Width>
  PITH_HD void add_rows(Team const& team, double* sums, In const* a, accum<In> const* b, Count count,
                        constant<Width>) const {
    auto const pitch = size.columns;
    auto const factor = thin_rows<Rows, Width>(b, size.rank);
    team.for_each(count, [=](std::uint32_t j) {
      double sum[Width];
      write_out<Width>([&](auto c) { sum[c] = sums[c * thin_strip + j]; });
      write_out<Rows>([&](auto y) {
        auto const value = element_cast<double>(a[y * pitch + j]);
        write_out<Width>([&](auto c) { sum[c] = add_product<accum<In>>(sum[c], value, factor.at[y * Width + c]); });
      });
      write_out<Width>([&](auto c) { sums[c * thin_strip + j] = sum[c]; });
    });
  }
};

/// M = P Q^T; terms are added in order. Q is given by columns.
template <class In>
struct thin_times_thin {
  static constexpr std::uint32_t tall = 4;
  static constexpr auto resident_blocks = thin_resident_blocks<In>;
  using memory = fast_array<double, tall * thin_strip>;

  accum<In> const* p;
  double const* q;
  In* m;
  thin_shape size;

  PITH_HD std::uint64_t strips() const { return (size.columns + thin_strip - 1) / thin_strip; }
  PITH_HD std::uint64_t blocks() const { return strips() * ((size.rows + tall - 1) / tall); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const row = block / strips() * tall, column = block % strips() * thin_strip;
    auto const rows = at_most(size.rows - row, tall), count = at_most(size.columns - column, thin_strip);
    if (rows == tall && count == thin_strip) {
      expand<tall>(team, fast.data(), row, column, constant<thin_strip>());
    } else {
      for (auto i = row; i < row + rows; ++i) expand<1>(team, fast.data(), i, column, count);
    }
  }

 private:
  template <std::uint32_t Rows, class Team, class Count>
  PITH_HD void expand(Team const& team, double* sums, std::uint64_t row, std::uint64_t column, Count count) const {
    auto const kept = size.rank > thin_group;
    auto const* const a = p + row * size.rank;
    auto const* const b = q + column;
    auto* const to = m + row * size.columns + column;
    if (kept) team.for_each(constant<Rows * thin_strip>(), [=](std::uint32_t i) { sums[i] = 0; });
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto const* const columns = b + c * size.columns;
      if (c + width < size.rank) {
        add<Rows, true, true>(team, sums, a + c, columns, to, count, width);
      } else if (kept) {
        add<Rows, true, false>(team, sums, a + c, columns, to, count, width);
      } else {
        add<Rows, false, false>(team, sums, a + c, columns, to, count, width);
      }
    });
  }

  /// Adds to `sums` if there were terms before these, and leaves them there if there are terms behind.
  template <std::uint32_t Rows, bool Before, bool Behind, class Team, class Count, std::uint32_t Width>
  PITH_HD void add(Team const& team, double* sums, accum<In> const* a, double const* b, In* to, Count count,
                   constant<Width>) const {
    auto const pitch = size.columns;
    auto const factor = thin_rows<Rows, Width>(a, size.rank);
    team.for_each(count, [=](std::uint32_t j) {
      write_out<Rows>([&](auto y) {
        double sum = Before ? sums[y * thin_strip + j] : 0;
        write_out<Width>(
            [&](auto c) { sum = add_product<accum<In>>(sum, factor.at[y * Width + c], b[c * pitch + j]); });
        if constexpr (Behind) {
          sums[y * thin_strip + j] = sum;
        } else {
          to[y * pitch + j] = element_cast<In>(sum);
        }
      });
    });
  }
};

constexpr std::size_t thin_scratch_bytes(thin_shape const& size) {
  auto const by_columns = scratch_for<double>(size.columns * size.rank);
  auto const p = scratch_for<double>(times_thin<float>::parts(size) * size.rows * size.rank);
  auto const q = scratch_for<double>(transposed_times_thin<float>::parts(size) * size.columns * size.rank);
  return std::max(by_columns + p, q);
}

template <executor E, class A>
double* take_by_columns(E const& exec, thin_shape const& size, A const* q, workspace_on<E>& ws) {
  auto* const to = ws.template take<double>(size.columns * size.rank).data;
  exec.for_each_index(size.columns * size.rank, by_columns<A>{q, to, size});
  return to;
}

/// P = M Q.
template <executor E, class In>
void multiply(E const& exec, thin_shape const& size, In const* m, accum<In> const* q, accum<In>* p,
              workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const* const columns = take_by_columns(exec, size, q, ws);
  auto const parts = times_thin<In>::parts(size), n = size.rows * size.rank;
  auto* const partial = ws.template take<double>(parts * n).data;
  auto const body = times_thin<In>{m, columns, partial, size};
  exec.for_each_block(body.blocks(), body);
  exec.for_each_index(n, add_parts<accum<In>>{partial, p, n, parts});
}

/// Q = M^T P.
template <executor E, class In>
void multiply_transposed(E const& exec, thin_shape const& size, In const* m, accum<In> const* p, accum<In>* q,
                         workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const parts = transposed_times_thin<In>::parts(size), n = size.columns * size.rank;
  auto* const partial = ws.template take<double>(parts * n).data;
  auto const body = transposed_times_thin<In>{m, p, partial, size};
  exec.for_each_block(body.blocks(), body);
  exec.for_each_index(n, add_parts<accum<In>>{partial, q, n, parts});
}

/// M = P Q^T.
template <executor E, class In>
void expand(E const& exec, thin_shape const& size, accum<In> const* p, accum<In> const* q, In* m, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto const body = thin_times_thin<In>{p, take_by_columns(exec, size, q, ws), m, size};
  exec.for_each_block(body.blocks(), body);
}

}  // namespace pith::inline v0::detail
