// pith/lowrank/detail/thin_times_thin.hpp — the product M = P Q^T, computed block by block.
#pragma once

#include <pith/lowrank/detail/exact_product.hpp>
#include <pith/lowrank/detail/thin.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// True if a thread can write single elements to the sink. Then a device computes the product in registers
/// (device_thin_times_thin.hpp).
template <class Sink, class A>
concept takes_elements = requires(Sink const& m, std::uint64_t i, A sum) {
  m.put(i, m.fetch(i), sum);
};

/// Computes M = P Q^T, and adds the terms of each element of M in the order of columns. Q is stored in column-major
/// order. M is written to a sink with element type A.
template <class Sink, class A, memory_space Space>
struct thin_times_thin {
  static constexpr std::uint32_t tall = 4, strip = strip_of_rows<Space, Sink::takes_blocks>;
  static constexpr auto resident_blocks = thin_resident_blocks<A>;
  struct memory {
    fast_array<double, tall * strip> sums;
    fast_array<A, Sink::takes_blocks ? tall * strip : 1> values;
  };

  A const* p;
  double const* q;
  Sink m;
  thin_shape size;

  PITH_HD std::uint64_t strips() const { return (size.columns + strip - 1) / strip; }
  PITH_HD std::uint64_t blocks() const { return strips() * ((size.rows + tall - 1) / tall); }
  std::uint64_t block_elements() const { return thin_elements(size, blocks()); }

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const row = block / strips() * tall, column = block % strips() * strip;
    auto const rows = at_most(size.rows - row, tall), count = at_most(size.columns - column, strip);
    if (rows == tall) {
      if constexpr (Team::specializes) {
        if (count == strip) return expand<tall>(team, fast, row, column, constant<strip>());
      }
      return expand<tall>(team, fast, row, column, count);
    }
    for (auto i = row; i < row + rows; ++i) expand<1>(team, fast, i, column, count);
  }

 private:
  template <std::uint32_t Rows, class Team, class Count>
  PITH_HD void expand(Team const& team, memory& fast, std::uint64_t row, std::uint64_t column, Count count) const {
    // A block has at most three single rows, so their loops always use `sums`, which halves the code for single rows.
    auto const kept = Rows == 1 || size.rank > thin_group;
    auto const* const a = p + row * size.rank;
    auto const* const b = q + column;
    auto const first = row * size.columns + column;
    auto* const sums = fast.sums.data();
    if (kept) {
      team.for_each(count, [=](std::uint32_t j) { write_out<Rows>([&](auto y) { sums[y * strip + j] = 0; }); });
    }
    for_each_group(size.rank, [&](std::uint64_t c, auto width) {
      auto const* const columns = b + c * size.columns;
      if constexpr (width == thin_group) {
        if (c + width < size.rank) return add<Rows, true, true>(team, fast, a + c, columns, first, count, width);
      }
      if constexpr (Rows > 1) {
        if (!kept) return add<Rows, false, false>(team, fast, a + c, columns, first, count, width);
      }
      add<Rows, true, false>(team, fast, a + c, columns, first, count, width);
    });
    if constexpr (Sink::takes_blocks) store<Rows>(team, fast.values.data(), first, count);
  }

  /// Adds the terms of one group of columns (thin.hpp). If `HasPrevious` is true, `sums` contains the sums over the
  /// previous groups. If `HasNext` is true, writes the results to `sums`. Otherwise, writes the results to the sink.
  template <std::uint32_t Rows, bool HasPrevious, bool HasNext, class Team, class Count, std::uint32_t Width>
  PITH_HD void add(Team const& team, memory& fast, A const* a, double const* b, std::uint64_t first, Count count,
                   constant<Width>) const {
    auto const pitch = size.columns;
    auto const to = m;
    auto* const sums = fast.sums.data();
    auto* const values = fast.values.data();
    auto const factor = thin_rows<Rows, Width>(a, size.rank);
    team.for_each(count, [=](std::uint32_t j) {
      write_out<Rows>([&](auto y) {
        double sum = HasPrevious ? sums[y * strip + j] : 0;
        write_out<Width>([&](auto c) { sum = add_product<A>(sum, factor.at[y * Width + c], b[c * pitch + j]); });
        if constexpr (HasNext) {
          sums[y * strip + j] = sum;
        } else if constexpr (Sink::takes_blocks) {
          values[y * strip + j] = static_cast<A>(sum);
        } else {
          to.put(first + y * pitch + j, static_cast<A>(sum));
        }
      });
    });
  }

  template <std::uint32_t Rows, class Team, class Count>
  PITH_HD void store(Team const& team, A* values, std::uint64_t first, Count count) const {
    for (std::uint32_t y = 0; y < Rows; ++y) m.store(team, first + y * size.columns, count, values + y * strip);
  }
};

}}}  // namespace pith::PITH_ABI::detail
