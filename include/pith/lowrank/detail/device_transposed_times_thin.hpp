// pith/lowrank/detail/device_transposed_times_thin.hpp — the product Q = M^T P on a device, with sums in registers.
#pragma once

#include <pith/lowrank/detail/strided_sum.hpp>
#include <pith/lowrank/detail/transposed_times_thin.hpp>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// As the general `transposed_times_thin`, with the same order of sums. A thread processes one column of M. A device
/// converts few values per clock, so the block converts each element of P to double once, `tall` rows at a time.
template <class Source, class A>
struct transposed_times_thin<Source, A, device_space> {
  static constexpr std::uint32_t strip = device_threads, tall = 256;
  /// A thread loads `loads_at_once` elements at once. Elements of two tensors, or doubles, need twice the registers.
  static constexpr unsigned resident_blocks = Source::stores_residual || sizeof(A) == 8 ? 2 : 4;
  using memory = fast_array<double, tall * thin_group>;

  Source m;
  A const* p;
  double* partial;
  thin_shape size;

  PITH_HD std::uint64_t strips() const { return (size.columns + strip - 1) / strip; }
  PITH_HD std::uint64_t blocks() const { return strips() * thin_slabs(size); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const part = block / strips(), column = block % strips() * strip, row = part * thin_slab(size);
    auto const rows = size.rows - row < thin_slab(size) ? size.rows - row : thin_slab(size);
    auto const count = at_most(size.columns - column, strip);
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto* const to = partial + (part * size.columns + column) * size.rank + c;
      for (std::uint64_t i = 0; i < rows; i += tall) {
        auto const a = m.tail((row + i) * size.columns + column);
        add(team, fast.data(), a, p + (row + i) * size.rank + c, to, at_most(rows - i, tall), count, i > 0, width);
      }
    });
  }

 private:
  /// Adds the terms of `rows` rows to the sums in `to` if `has_previous`, otherwise to zero.
  template <class Team, std::uint32_t Width>
  PITH_HD void add(Team const& team, double* factor, Source const& a, A const* b, double* to, std::uint32_t rows,
                   std::uint32_t count, bool has_previous, constant<Width>) const {
    auto const rank = size.rank, pitch = size.columns;
    team.for_each(rows * Width,
                  [=](std::uint32_t k) { factor[k] = static_cast<double>(b[k / Width * rank + k % Width]); });
    team.for_each(constant<device_threads>(), [=](std::uint32_t j) {
      if (j >= count) return;
      double sum[Width];
      write_out<Width>([&](auto c) { sum[c] = has_previous ? to[j * rank + c] : 0; });
      add_column(sum, a.tail(j), pitch, factor, rows, constant<Width>());
      write_out<Width>([&](auto c) { to[j * rank + c] = sum[c]; });
    });
  }

  template <std::uint32_t Width>
  PITH_HD static void add_column(double* sum, Source const& column, std::uint64_t pitch, double const* factor,
                                 std::uint32_t rows, constant<Width> width) {
    constexpr std::uint32_t steps = loads_at_once<device_space>;
    std::uint32_t i = 0;
    PITH_CUDA_NO_UNROLL
    for (; i + steps <= rows; i += steps) {
      add_rows<steps>(sum, column.tail(i * pitch), pitch, factor + i * Width, width);
    }
    PITH_CUDA_NO_UNROLL
    for (; i < rows; ++i) add_rows<1>(sum, column.tail(i * pitch), pitch, factor + i * Width, width);
  }

  /// Adds the terms of `Rows` rows. The loads of all elements of M run in parallel.
  template <std::uint32_t Rows, std::uint32_t Width>
  PITH_HD static void add_rows(double* sum, Source const& column, std::uint64_t pitch, double const* factor,
                               constant<Width>) {
    A value[Rows];
    write_out<Rows>([&](auto y) { value[y] = column(y * pitch); });
    write_out<Rows * Width>([&](auto k) {
      sum[k % Width] = add_product<A>(sum[k % Width], static_cast<double>(value[k / Width]), factor[k]);
    });
  }
};

}}}  // namespace pith::PITH_ABI::detail
