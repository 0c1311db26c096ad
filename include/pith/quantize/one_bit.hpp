// pith/quantize/one_bit.hpp — one bit per element, the mean of the negative elements, and the mean of the others.
#pragma once

#include <pith/core/option.hpp>
#include <pith/quantize/detail/one_bit_matrix.hpp>
#include <pith/quantize/detail/one_bit_rule.hpp>
#include <pith/quantize/scalar_quantizer.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// The elements that share two means: the whole tensor, a row or a column.
enum class axis : std::uint8_t { tensor, row, column };

namespace options {
inline constexpr option<axis::row> row = {};
inline constexpr option<axis::column> column = {};
}  // namespace options

/// Encodes each element as one bit, which is 1 if the element is negative. Also encodes, for each row or column, the
/// mean of the negative elements and the mean of the other elements.
///
///   emits       n symbols of 1 bit; side information: two means per row or column; the mean of the negative elements
///               is second
///   requires    a matrix shape, in which `rows` divides n (std::invalid_argument)
///   complexity  two reads of x. For rows, scratch memory of one word per row, and of 24 bytes (two sums and a count)
///               per tile (16,384 elements) of a row. For columns, scratch memory of 24 bytes per column for every 256
///               rows
///   on NaN      a row or column that contains NaN or infinity decodes to NaN
///   properties  a projection on the span of two indicator vectors per row or column: of the negative elements, and of
///               the other elements. Contractive with delta = 1 / columns for one_bit(row), and 1 / rows for
///               one_bit(column). Use one_bit with error feedback
///   reference   Seide, Fu, Droppo, Li and Yu, 1-Bit Stochastic Gradient Descent, Interspeech 2014, which uses one pair
///               of means per column
template <axis Of = axis::tensor>
class one_bit : public codec_base {
 public:
  using facets = ext::facets<ext::contractive, ext::ranks>;

  template <class In>
  using output = packed<1>;

  static constexpr codec_traits traits = {.projection = true, .reproducible = true};

  explicit constexpr one_bit(option<Of> = {}) {}

  std::string name() const { return by_row ? "one_bit(row)" : "one_bit(column)"; }
  double delta(shape const& dims) const {
    return dims.n == 0 ? 1 : 1 / static_cast<double>(by_row ? dims.columns() : dims.rows);
  }

  template <real In>
  std::size_t side_bytes(shape const& dims) const {
    detail::require(dims.rows >= 1 && dims.n % dims.rows == 0, "one_bit: rows must divide the ", dims.n,
                    " elements of the tensor, got ", dims.rows);
    return dims.n == 0 ? 0 : (by_row ? dims.rows : dims.columns()) * sizeof(means<In>);
  }
  template <real In, executor E>
  constexpr std::size_t scratch_bytes(E const&, shape const& dims) const {
    return scratch_for<detail::one_bit_rule::sums>(parts(dims)) + scratch_for<std::uint32_t>(by_row ? dims.rows : 0);
  }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, packed<1>> y) const {
    auto* const partial = cx.ws.template take<detail::one_bit_rule::sums>(parts(cx.dims)).data;
    auto* const to = side_as<means<In>>(y.side);
    detail::write_signs<In>(cx.exec, cx.dims.n, x.data, y.values.data);
    if constexpr (by_row) {
      detail::measure_rows<In>(cx, x.data, partial, to);
    } else {
      detail::measure_columns<In>(cx.exec, cx.dims, x.data, partial, to);
    }
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, packed<1> const> y, values_on<E, In> x) const {
    decode_parts<In>(cx.exec, cx.dims, {y, 0, 1}, 1, x);
  }
  /// Sets x to factor times the sum of the ranks' decoded values, added in rank order, in one pass.
  template <real In, executor E>
  void decode_ranks(context<In, E> const& cx, gathered_on<E, packed<1>> in, accum<In> factor,
                    values_on<E, In> x) const {
    decode_parts<In>(cx.exec, cx.dims, in, factor, x);
  }

 private:
  template <class In>
  using means = scale_of<detail::one_bit_rule, accum<In>>;

  static constexpr bool by_row = Of == axis::row;

  static constexpr std::uint64_t parts(shape const& dims) {
    return by_row ? detail::row_parts(dims) : detail::column_parts(dims);
  }

  template <class In, class E>
  void decode_parts(E const& exec, shape const& dims, gathered_on<E, packed<1>> in, accum<In> factor,
                    values_on<E, In> x) const {
    using body = detail::look_up_means<In, by_row, E::items_per_block>;
    auto const* const all = side_as<means<In>>(in.side);
    auto const by = detail::split_factor(factor, in.ranks);
    auto const to = ext::tensor_sink<In>{x.data, by.after};
    exec.for_each_block(detail::blocks_for(dims.n, E::items_per_block),
                        body{in.values.data, all, in.stride, in.ranks, to, by.before, dims.n, dims.columns()});
    detail::bound_means(exec, factor, in.ranks, x.data, dims.n);
  }
};

/// Encodes each element as one bit, which is 1 if the element is negative. Also encodes, for each bucket, the mean of
/// the negative elements and the mean of the other elements.
///
///   emits       n symbols of 1 bit; side information: two means per bucket; the mean of the negative elements is
///               second
///   requires    a bucket size of 0 (the whole tensor, the default) or a multiple of 8
///   on NaN      a bucket decodes to NaN if it contains NaN or infinity, or (double only) if its sum overflows
///   properties  a projection on the span of two indicator vectors per bucket: of the negative elements, and of the
///               other elements. Contractive with delta = 1 / (bucket size). Use one_bit with error feedback. Zero
///               counts as positive
///   reference   Seide et al., Interspeech 2014. GRACE, ICDCS 2021, uses one bucket for the whole tensor
template <>
class one_bit<axis::tensor> : public scalar_quantizer<detail::one_bit_rule> {
 public:
  using facets = ext::facets<ext::contractive>;

  static constexpr codec_traits traits = {.projection = true, .reproducible = true};

  explicit constexpr one_bit(std::uint64_t bucket = 0) : scalar_quantizer({}, bucket, "one_bit") {}

  std::string name() const { return bucket() == 0 ? "one_bit" : detail::text("one_bit(", bucket(), ")"); }
  double delta(shape const& dims) const { return dims.n == 0 ? 1 : 1 / static_cast<double>(bucket_of(dims.n)); }
};

one_bit(std::uint64_t)->one_bit<axis::tensor>;

static_assert(stage<one_bit<>, float, archetype> && promises_of<one_bit<>>.contractive);
static_assert(stage<one_bit<axis::column>, float, archetype>);

}}  // namespace pith::PITH_ABI
