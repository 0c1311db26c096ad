// pith/lowrank/detail/device_times_thin.hpp — the product P = M Q on a device, whose threads keep sums in registers.
#pragma once

#include <pith/lowrank/detail/times_thin.hpp>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// As the general `times_thin`, with the same order of sums. A lane is one thread, and keeps its sums over all columns
/// in registers. A warp processes `high` rows together, so that it loads each element of Q once for these rows.
template <class Source, class A>
struct times_thin<Source, A, device_space> {
  static constexpr std::uint32_t lanes = 32, high = 4, tall = device_threads / lanes * high;
  static constexpr auto resident_blocks = thin_resident_blocks<A>;
  using memory = fast_array<double, tall * thin_group * lanes>;

  Source m;
  double const* q;
  double* partial;
  thin_shape size;
  A* p = nullptr;  ///< P, if it has only one part; else null

  PITH_HD std::uint64_t talls() const { return (size.rows + tall - 1) / tall; }
  PITH_HD std::uint64_t blocks() const { return talls() * thin_segments(size); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const part = block / talls(), row = block % talls() * tall, column = part * thin_segment;
    auto const rows = at_most(size.rows - row, tall), count = at_most(size.columns - column, thin_segment);
    auto* const sums = fast.data();
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto const right = size.columns;
      auto const a = m.tail(row * right + column);
      auto const* const b = q + c * right + column;
      team.for_each(constant<device_threads>(), [=](std::uint32_t thread) {
        auto const first = thread / lanes * high;
        if (first < rows) add(a, b, right, first, rows - 1, count, thread % lanes, width, sums);
      });
      fold_rows(team, sums, rows * width, constant<lanes>(), constant<lanes / 2>(), plus());
      auto const rank = size.rank;
      auto* const to = partial + (part * size.rows + row) * rank + c;
      auto* const whole = p == nullptr ? nullptr : p + row * rank + c;
      team.for_each(rows * width, [=](std::uint32_t i) {
        auto const at = i / width * rank + i % width;
        if (whole == nullptr) {
          to[at] = sums[i * lanes];
        } else {
          whole[at] = static_cast<A>(sums[i * lanes]);
        }
      });
    });
  }

 private:
  /// A lane, its sums, and its rows of M. If the matrix has fewer rows, the last row takes the place of the missing
  /// rows, and nothing reads the sums of the missing rows.
  template <std::uint32_t Width>
  struct lane_sums {
    Source row[high];
    double const* column;
    std::uint64_t right;  ///< the distance between columns of Q
    double sum[high * Width];

    template <std::uint32_t Steps>
    PITH_HD void load(std::uint32_t j, A* value) const {
      write_out<Steps * high>([&](auto k) { value[k] = row[k % high](j + k / high * lanes); });
    }
    /// Adds `Steps` terms to each sum.
    template <std::uint32_t Steps>
    PITH_HD void add(std::uint32_t j, A const* value) {
      write_out<Steps * Width>([&](auto k) {
        constexpr std::uint32_t step = k / Width, c = k % Width;
        auto const factor = column[c * right + j + step * lanes];
        write_out<high>([&](auto y) {
          auto& to = sum[y * Width + c];
          to = add_product<A>(to, static_cast<double>(value[step * high + y]), factor);
        });
      });
    }
    /// Adds the terms j, j + lanes, ... below `count`. Loads the next elements of M before it uses the current ones.
    PITH_HD void add_row(std::uint32_t j, std::uint32_t count) {
      constexpr std::uint32_t steps = Source::stores_residual ? 2 : 3, stride = steps * lanes, reach = stride - lanes;
      A value[steps * high], next[steps * high];
      if (j + reach < count) load<steps>(j, value);
      PITH_CUDA_NO_UNROLL
      for (; j + reach < count; j += stride) {
        if (j + stride + reach < count) load<steps>(j + stride, next);
        add<steps>(j, value);
        write_out<steps * high>([&](auto k) { value[k] = next[k]; });
      }
      PITH_CUDA_NO_UNROLL
      for (; j < count; j += lanes) {
        load<1>(j, value);
        add<1>(j, value);
      }
    }
  };

  template <std::uint32_t Width>
  PITH_HD static void add(Source const& a, double const* b, std::uint64_t right, std::uint32_t first,
                          std::uint32_t last, std::uint32_t count, std::uint32_t lane, constant<Width>, double* sums) {
    static_assert(high == 4);
    auto const row = [&](std::uint32_t y) { return a.tail(at_most(first + y, last) * right); };
    auto of = lane_sums<Width>{{row(0), row(1), row(2), row(3)}, b, right, {}};
    of.add_row(lane, count);
    write_out<high * Width>([&](auto k) { sums[(first * Width + k) * lanes + lane] = of.sum[k]; });
  }
};

}}}  // namespace pith::PITH_ABI::detail
