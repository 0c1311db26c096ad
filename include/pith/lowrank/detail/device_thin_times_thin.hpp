// pith/lowrank/detail/device_thin_times_thin.hpp — the product M = P Q^T on a device, with sums in registers.
#pragma once

#include <pith/core/source.hpp>
#include <pith/lowrank/detail/thin_times_thin.hpp>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// As the general `thin_times_thin`, with the same order of sums. A thread computes tiles of `high` x `wide` elements.
/// A device converts few values per clock, so each element of P is converted to double once for `wide` elements of M.
/// The columns of a tile are `device_threads` apart.
template <class Sink, class A>
  requires takes_elements<Sink, A>
struct thin_times_thin<Sink, A, device_space> {
  static constexpr std::uint32_t high = 4, wide = 4, strip = wide * device_threads;
  static constexpr auto resident_blocks = thin_resident_blocks<A>;
  struct memory {};

  A const* p;
  double const* q;
  Sink m;
  thin_shape size;

  /// The number of rows of a block. With more rows per block, fewer blocks read each column of Q. With fewer rows, a
  /// small matrix has enough blocks.
  PITH_HD std::uint32_t tall() const { return size.rows * size.columns < std::uint64_t{1} << 23 ? high : 4 * high; }
  PITH_HD std::uint64_t strips() const { return (size.columns + strip - 1) / strip; }
  PITH_HD std::uint64_t blocks() const { return strips() * ((size.rows + tall() - 1) / tall()); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    auto const self = *this;
    auto const row = block / strips() * tall(), column = block % strips() * strip;
    auto const rows = at_most(size.rows - row, tall()), count = at_most(size.columns - column, strip);
    team.for_each(constant<device_threads>(), [=](std::uint32_t thread) {
      if (thread >= count) return;
      PITH_CUDA_NO_UNROLL
      for (std::uint32_t y = 0; y < rows; y += high) {
        auto const left = at_most(rows - y, high);
        if (left == high && thread + (wide - 1) * device_threads < count) {
          self.expand(tile<true>{self.size, row + y, column + thread, high, strip});
        } else {
          self.expand(tile<false>{self.size, row + y, column + thread, left, count - thread});
        }
      }
    });
  }

 private:
  /// A tile whose first element is at `row` and `column`. The tile has `rows` rows, and those columns whose distance
  /// from the first column is less than `count`. A whole tile needs no comparisons.
  template <bool Whole>
  struct tile {
    thin_shape size;
    std::uint64_t row, column;
    std::uint32_t rows, count;

    PITH_HD bool has(std::uint32_t y, std::uint32_t k) const {
      return Whole || (y < rows && k * device_threads < count);
    }
    PITH_HD std::uint64_t at(std::uint32_t y, std::uint32_t k) const {
      return (row + y) * size.columns + column + k * device_threads;
    }
    /// These functions return the offset of row y and of column k, or 0 if the tile has no such row or column.
    PITH_HD std::uint32_t row_of(std::uint32_t y) const { return Whole || y < rows ? y : 0; }
    PITH_HD std::uint32_t column_of(std::uint32_t k) const { return has(0, k) ? k * device_threads : 0; }
  };

  template <class Tile>
  PITH_HD void expand(Tile const& of) const {
    double sum[high * wide] = {};
    for_each_group(size.rank, [&](std::uint64_t c, auto width) { add(of, c, width, sum); });
    A value[high * wide];
    write_out<high * wide>([&](auto k) { value[k] = static_cast<A>(sum[k]); });
    write_out<high>([&](auto y) { put_row(of, y, value + y * wide); });
  }
  /// Fetches all elements of a row before it puts the first. The elements of all rows would not fit in registers.
  template <class Tile>
  PITH_HD void put_row(Tile const& of, std::uint32_t y, A const* value) const {
    decltype(m.fetch(0)) before[wide];
    write_out<wide>([&](auto k) {
      if (of.has(y, k)) before[k] = m.fetch(of.at(y, k));
    });
    write_out<wide>([&](auto k) {
      if (of.has(y, k)) m.put(of.at(y, k), before[k], value[k]);
    });
  }

  /// Adds the terms of the columns c .. c + Width - 1 of P and Q.
  template <class Tile, std::uint32_t Width>
  PITH_HD void add(Tile const& of, std::uint64_t c, constant<Width>, double* sum) const {
    auto const* const a = p + of.row * size.rank + c;
    auto const* const b = q + c * size.columns + of.column;
    write_out<Width>([&](auto i) {
      double left[high], right[wide];
      write_out<high>([&](auto y) { left[y] = static_cast<double>(a[of.row_of(y) * size.rank + i]); });
      write_out<wide>([&](auto k) { right[k] = b[i * size.columns + of.column_of(k)]; });
      write_out<high * wide>([&](auto k) { sum[k] = add_product<A>(sum[k], left[k / wide], right[k % wide]); });
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
