// pith/lowrank/detail/transposed_times_thin.hpp — the product Q = M^T P, computed block by block.
#pragma once

#include <pith/lowrank/detail/exact_product.hpp>
#include <pith/lowrank/detail/prefetch.hpp>
#include <pith/lowrank/detail/thin.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The product Q = M^T P is the sum of partial products. `thin_slab` is the number of rows of M that one partial
/// product covers. With this number, all partial products together take an eighth of a byte per element of M.
PITH_HD constexpr std::uint64_t thin_slab(thin_shape const& size) { return 64 * size.rank; }
PITH_HD constexpr std::uint64_t thin_slabs(thin_shape const& size) {
  return (size.rows + thin_slab(size) - 1) / thin_slab(size);
}

/// Computes the partial products of Q = M^T P, one per `thin_slab` rows of M. Terms are added in the order of rows. M
/// is a source with element type A.
template <class Source, class A, memory_space Space>
struct transposed_times_thin {
  static constexpr auto resident_blocks = thin_resident_blocks<A>;
  using memory = fast_array<double, thin_group * thin_strip>;

  Source m;
  A const* p;
  double* partial;
  thin_shape size;

  PITH_HD std::uint64_t strips() const { return (size.columns + thin_strip - 1) / thin_strip; }
  PITH_HD std::uint64_t blocks() const { return strips() * thin_slabs(size); }
  std::uint64_t block_elements() const { return thin_elements(size, blocks()); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const part = block / strips(), column = block % strips() * thin_strip, row = part * thin_slab(size);
    auto const rows = size.rows - row < thin_slab(size) ? size.rows - row : thin_slab(size);
    auto const count = at_most(size.columns - column, thin_strip);
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto const a = m.tail(row * size.columns + column);
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
  PITH_HD void add(Team const& team, double* sums, Source const& a, A const* b, double* to, std::uint64_t rows,
                   Count count, constant<Width> width) const {
    constexpr std::uint32_t steps = 4;
    auto const rank = size.rank;
    team.for_each(constant<Width * thin_strip>(), [=](std::uint32_t i) { sums[i] = 0; });
    std::uint64_t i = 0;
    for (; i + steps <= rows; i += steps) {
      if (rows - i >= 2 * steps) prefetch_rows(a.tail((i + steps) * size.columns), size.columns, steps, count);
      add_rows<steps>(team, sums, a.tail(i * size.columns), b + i * rank, count, width);
    }
    for (; i < rows; ++i) add_rows<1>(team, sums, a.tail(i * size.columns), b + i * rank, count, width);
    team.for_each(count, [=](std::uint32_t j) {
      write_out<Width>([&](auto c) { to[j * rank + c] = sums[c * thin_strip + j]; });
    });
  }

  template <std::uint32_t Rows, class Team, class Count, std::uint32_t Width>
  PITH_HD void add_rows(Team const& team, double* sums, Source const& a, A const* b, Count count,
                        constant<Width>) const {
    auto const pitch = size.columns;
    auto const factor = thin_rows<Rows, Width>(b, size.rank);
    team.for_each(count, [=](std::uint32_t j) {
      double sum[Width];
      write_out<Width>([&](auto c) { sum[c] = sums[c * thin_strip + j]; });
      write_out<Rows>([&](auto y) {
        auto const value = static_cast<double>(a(y * pitch + j));
        write_out<Width>([&](auto c) { sum[c] = add_product<A>(sum[c], value, factor.at[y * Width + c]); });
      });
      write_out<Width>([&](auto c) { sums[c * thin_strip + j] = sum[c]; });
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
