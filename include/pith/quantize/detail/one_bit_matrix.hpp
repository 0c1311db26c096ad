// pith/quantize/detail/one_bit_matrix.hpp — the means of a matrix's rows or columns, for encoding and decoding.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/core/source.hpp>
#include <pith/quantize/detail/large_buckets.hpp>
#include <pith/quantize/detail/one_bit_rule.hpp>
#include <pith/quantize/sign.hpp>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Writes the sign symbols of all elements of a tensor. The symbols of a row may start at any bit of a byte.
template <class In, class E>
void write_signs(E const& exec, std::uint64_t n, In const* x, std::uint8_t* bytes) {
  constexpr auto span = E::items_per_block;
  auto const over = blocks_of(n, 0, span);
  auto const to = quantized<sign_rule, accum<In>>{{}, over, bytes, nullptr};
  using body = quantize_part<sign_rule, plain_source<In>, accum<In>, span>;
  exec.for_each_block(over.count(), body{to, {x}, draws(encoding_id())});
}

/// The number of tiles (core/detail/summation.hpp) in all rows of a matrix. A tile never contains elements of two rows.
constexpr std::uint64_t row_parts(shape const& dims) {
  auto const over = blocks_of(dims.n, dims.columns(), tile);
  return over.buckets() * over.tiles();
}

template <class In, class E>
void measure_rows(context<In, E> const& cx, In const* x, one_bit_rule::sums* partial,
                  scale_of<one_bit_means, accum<In>>* to) {
  using A = accum<In>;
  auto const over = blocks_of(cx.dims.n, cx.dims.columns(), E::items_per_block);
  auto const out = quantized<one_bit_means, A>{{}, over, nullptr, to};
  using tiles = measure_tiles<one_bit_means, plain_source<In>, A, E::items_per_block>;
  cx.exec.for_each_block(row_parts(cx.dims),
                         tiles{out, {x}, partial, arrival_words(cx.exec, encoding_id(), over.buckets(), cx.ws)});
}

inline constexpr std::uint32_t strip_rows = 256, strip_columns = 512;

/// The number of column statistics: one per column in each strip of `strip_rows` rows.
constexpr std::uint64_t column_parts(shape const& dims) { return blocks_for(dims.rows, strip_rows) * dims.columns(); }

/// Computes the statistics of up to `strip_columns` columns over one strip of rows, row by row.
template <class In>
struct measure_strip {
  static constexpr std::uint32_t items_per_block = strip_rows * strip_columns;
  using memory = fast_array<one_bit_rule::sums, strip_columns>;

  std::uint64_t rows, columns;
  In const* x;
  one_bit_rule::sums* partial;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const across = (columns + strip_columns - 1) / strip_columns;
    auto const strip = block / across, column = block % across * strip_columns;
    auto const left = columns - column, below = rows - strip * strip_rows;
    auto const width = left < strip_columns ? static_cast<std::uint32_t>(left) : strip_columns;
    auto const height = below < strip_rows ? below : strip_rows;
    auto* const lanes = fast.data();
    auto const* const from = x + strip * strip_rows * columns + column;
    team.for_each(width, [=](std::uint32_t c) { lanes[c] = measured(from[c]); });
    for (std::uint64_t r = 1; r < height; ++r) {
      auto const* const row = from + r * columns;
      team.for_each(width, [=](std::uint32_t c) { lanes[c] = one_bit_rule().merge(lanes[c], measured(row[c])); });
    }
    auto* const to = partial + strip * columns + column;
    team.for_each(width, [=](std::uint32_t c) { to[c] = lanes[c]; });
  }

 private:
  PITH_HD static one_bit_rule::sums measured(In v) { return one_bit_rule().measure(element_cast<accum<In>>(v)); }
};

template <class A>
struct finish_column {
  one_bit_rule::sums const* partial;
  scale_of<one_bit_rule, A>* to;
  std::uint64_t rows, columns;

  PITH_HD void operator()(std::uint64_t c) const {
    auto sum = partial[c];
    for (std::uint64_t at = c + columns, row = strip_rows; row < rows; row += strip_rows, at += columns) {
      sum = one_bit_rule().merge(sum, partial[at]);
    }
    to[c] = one_bit_rule().finish(sum, rows, A{});
  }
};

template <class In, class E>
void measure_columns(E const& exec, shape const& dims, In const* x, one_bit_rule::sums* partial,
                     scale_of<one_bit_rule, accum<In>>* to) {
  auto const blocks = blocks_for(dims.rows, strip_rows) * blocks_for(dims.columns(), strip_columns);
  exec.for_each_block(blocks, measure_strip<In>{dims.rows, dims.columns(), x, partial});
  exec.for_each_index(dims.columns(), finish_column<accum<In>>{partial, to, dims.rows, dims.columns()});
}

/// Decodes the payloads of all ranks. A symbol selects one of the two means of its row or column. The selected means
/// are added in rank order, and the sum is written to the sink.
template <class In, bool ByRow, std::uint32_t Span>
struct look_up_means {
  using A = accum<In>;
  using means = scale_of<one_bit_rule, A>;
  struct memory {
    fast_array<A, Span> sum;
    fast_array<std::uint8_t, Span> symbols;
  };

  std::uint8_t const* bytes;
  means const* all;
  std::size_t stride;
  unsigned ranks;
  tensor_sink<In> to;
  A before;  ///< the power of two by which decoded values are multiplied (split_factor.hpp)
  std::uint64_t n, columns;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto const first = block * Span;
    auto const count = block_size(n, first, Span);
    auto* const sum = fast.sum.data();
    team.for_each(count, [=](std::uint32_t i) { sum[i] = -A{0}; });  // -0 + v is v, also if v is 0 or -0
    for (unsigned rank = 0; rank < ranks; ++rank) {
      auto const* const its = reinterpret_cast<std::uint8_t const*>(all) + rank * stride;
      unpack_symbols<1>(team, bytes + rank * stride + first / octet, count, fast.symbols.data());
      add(team, fast, first, count, reinterpret_cast<means const*>(its));
    }
    auto const sink = to;
    team.for_each(count, [=](std::uint32_t i) { sink.put(first + i, sum[i]); });
  }

 private:
  /// Adds the values of one rank to the sums. Processes the block row by row, which avoids a division per element.
  template <class Team>
  PITH_HD void add(Team const& team, memory& fast, std::uint64_t first, std::uint32_t count, means const* its) const {
    auto row = first / columns, column = first % columns;
    for (std::uint32_t done = 0; done < count; ++row, column = 0) {
      auto const left = columns - column;
      auto const width = left < count - done ? static_cast<std::uint32_t>(left) : count - done;
      auto* const sum = fast.sum.data() + done;
      auto const* const symbols = fast.symbols.data() + done;
      auto const* const from = its + (ByRow ? row : column);
      auto const share = before;
      team.for_each(width, [=](std::uint32_t i) {
        sum[i] += share * tensor_sink<In>::rounded(one_bit_rule().value(symbols[i], from[ByRow ? 0 : i]));
      });
      done += width;
    }
  }
};

}}}  // namespace pith::PITH_ABI::detail
