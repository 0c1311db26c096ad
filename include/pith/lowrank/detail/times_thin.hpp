// pith/lowrank/detail/times_thin.hpp — the product P = M Q, computed block by block.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/lowrank/detail/exact_product.hpp>
#include <pith/lowrank/detail/prefetch.hpp>
#include <pith/lowrank/detail/thin.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The product P = M Q is the sum of partial products. `thin_segment` is the number of columns of M that one partial
/// product covers, and `thin_segments` is the number of partial products.
inline constexpr std::uint32_t thin_segment = 8192;
PITH_HD constexpr std::uint64_t thin_segments(thin_shape const& size) {
  return (size.columns + thin_segment - 1) / thin_segment;
}

/// Computes the partial products of P = M Q, one per `thin_segment` columns of M. Each element of a partial product is
/// the sum of 32 lanes. Lane i adds the terms i, i + 32, ... in this order. The lanes are merged as in a tile of
/// summation.hpp. M is a source with element type A. Q is stored in column-major order.
template <class Source, class A, memory_space Space>
struct times_thin {
  /// True if the source consists of two tensors. In this case, a block first loads its rows, one by one, into
  /// block-local memory. Without this step, the block would read several rows of both tensors at once, which are more
  /// address streams than a CPU prefetches. Such a block has fewer rows, so that the rows and the sums fit into
  /// block-local memory.
  static constexpr bool loads = Source::stores_residual;
  static constexpr std::uint32_t lanes = 32, tall = loads ? 8 : 16;
  static constexpr std::uint32_t strip = strip_of_rows<Space, loads>;
  static constexpr auto resident_blocks = thin_resident_blocks<A>;
  struct memory {
    fast_array<double, tall * thin_group * lanes> sums;
    fast_array<A, loads ? tall * strip : 1> room;
  };

  Source m;
  double const* q;
  double* partial;
  thin_shape size;

  PITH_HD std::uint64_t talls() const { return (size.rows + tall - 1) / tall; }
  PITH_HD std::uint64_t blocks() const { return talls() * thin_segments(size); }
  std::uint64_t block_elements() const { return thin_elements(size, blocks()); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const part = block / talls(), row = block % talls() * tall, column = part * thin_segment;
    auto const rows = at_most(size.rows - row, tall), count = at_most(size.columns - column, thin_segment);
    auto* const sums = fast.sums.data();
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto* const to = partial + (part * size.rows + row) * size.rank + c;
      auto const rank = size.rank;
      team.for_each(rows * width * lanes, [=](std::uint32_t i) { sums[i] = 0; });
      auto const a = m.tail(row * size.columns + column);
      auto const* const b = q + c * size.columns + column;
      if constexpr (loads) {
        add_strips(team, fast, a, b, rows, count, width);
      } else {
        add(team, sums, a, size.columns, b, rows, count, width);
      }
      fold_rows(team, sums, rows * width, constant<lanes>(), constant<lanes / 2>(), plus());
      team.for_each(rows * width, [=](std::uint32_t i) { to[i / width * rank + i % width] = sums[i * lanes]; });
    });
  }

 private:
  /// For each strip of columns, loads this strip of every row, and then multiplies the loaded strips with Q.
  template <class Team, class Width>
  PITH_HD void add_strips(Team const& team, memory& fast, Source const& a, double const* b, std::uint32_t rows,
                          std::uint32_t count, Width width) const {
    auto* const room = fast.room.data();
    for (std::uint32_t j = 0; j < count; j += strip) {
      auto const n = at_most(count - j, strip);
      for (std::uint32_t y = 0; y < rows; ++y) a.load(team, y * size.columns + j, n, room + y * strip);
      add(team, fast.sums.data(), plain_source<A>{room}, strip, b + j, rows, n, width);
    }
  }

  template <class Team, class From, class Width>
  PITH_HD void add(Team const& team, double* sums, From const& a, std::uint64_t pitch, double const* b,
                   std::uint32_t rows, std::uint32_t count, Width width) const {
    constexpr std::uint32_t steps = 4, chunk = steps * lanes;
    std::uint32_t j = 0;
    for (; j + chunk <= count; j += chunk) {
      auto const ahead = !loads && count - j >= 2 * chunk ? chunk : 0;
      add_rows<steps>(team, sums, a.tail(j), pitch, b + j, rows, constant<lanes>(), width, ahead);
    }
    for (; j + lanes <= count; j += lanes) {
      add_rows<1>(team, sums, a.tail(j), pitch, b + j, rows, constant<lanes>(), width, 0);
    }
    if (j < count) add_rows<1>(team, sums, a.tail(j), pitch, b + j, rows, count - j, width, 0);
  }

  template <std::uint32_t Steps, class Team, class From, class Count, class Width>
  PITH_HD void add_rows(Team const& team, double* sums, From const& a, std::uint64_t pitch, double const* b,
                        std::uint32_t rows, Count count, Width width, std::uint32_t ahead) const {
    auto const even = rows / 2 * 2;
    add_steps<2, Steps>(team, sums, a, pitch, b, even / 2, count, width, ahead);
    if (even == rows) return;
    add_steps<1, Steps>(team, sums + even * width * lanes, a.tail(even * pitch), pitch, b, 1, count, width, ahead);
  }

  /// For `times` runs of `Rows` rows, adds `Steps` terms to each sum of `count` lanes.
  template <std::uint32_t Rows, std::uint32_t Steps, class Team, class From, class Count, class Width>
  PITH_HD void add_steps(Team const& team, double* sums, From const& a, std::uint64_t pitch, double const* b,
                         std::uint32_t times, Count count, Width width, std::uint32_t ahead) const {
    auto const right = size.columns;
    team.for_each_in(times * count, count, [=](std::uint32_t r) {
      auto const row = a.tail(r * Rows * pitch);
      prefetch_rows(row.tail(ahead), pitch, Rows, ahead);
      return lane_terms<Rows, Steps, From, Width>{row, b, sums + r * (Rows * width * lanes), pitch, right, r * count};
    });
  }

  /// Adds `Steps` terms to each sum of a lane. A lane has `Width` sums for each of `Rows` rows.
  template <std::uint32_t Rows, std::uint32_t Steps, class From, class Width>
  struct lane_terms;
  template <std::uint32_t Rows, std::uint32_t Steps, class From, std::uint32_t Width>
  struct lane_terms<Rows, Steps, From, constant<Width>> {
    From row;
    double const* column;
    double* sums;
    std::uint64_t pitch, right;  ///< the distances between rows of M, and between columns of Q
    std::uint32_t first;

    PITH_HD void operator()(std::uint32_t i) const {
      auto const lane = i - first;
      double sum[Rows * Width];
      write_out<Rows * Width>([&](auto k) { sum[k] = sums[k * lanes + lane]; });
      write_out<Steps * Rows>([&](auto k) {
        constexpr std::uint32_t y = k % Rows, at = k / Rows * lanes;
        auto const value = static_cast<double>(row(y * pitch + at + lane));
        write_out<Width>([&](auto c) {
          sum[y * Width + c] = add_product<A>(sum[y * Width + c], value, column[c * right + at + lane]);
        });
      });
      write_out<Rows * Width>([&](auto k) { sums[k * lanes + lane] = sum[k]; });
    }
  };
};

}}}  // namespace pith::PITH_ABI::detail
