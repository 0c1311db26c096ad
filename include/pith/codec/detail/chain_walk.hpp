// pith/codec/detail/chain_walk.hpp — recursion over the stages of a chain: sizes, encoding and decoding.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/detail/chain_promises.hpp>
#include <pith/codec/detail/chain_types.hpp>
#include <pith/codec/stage.hpp>

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace pith::inline v0::detail {

/// The number of bytes of stage I's side information, including padding to the next section. `In` is the stage's input
/// type.
template <std::size_t I, class In, class... S>
constexpr std::size_t own_side(std::tuple<S...> const& row, shape const& dims) {
  return align_up(std::get<I>(row).template side_bytes<In>(dims), section_alignment);
}

/// Sizes for stage I and all later stages: the bytes of side information, the offset of the count in the side
/// information, and the scratch bytes. `In` is the input type of stage I.
template <std::size_t I, class In, class... S>
constexpr std::size_t side_from(std::tuple<S...> const& row, shape const& dims) {
  if constexpr (I + 1 == sizeof...(S)) {
    return std::get<I>(row).template side_bytes<In>(dims);
  } else {
    return own_side<I, In>(row, dims) +
           side_from<I + 1, output_of<stage_at<I, S...>, In>>(row, std::get<I>(row).output_shape(dims));
  }
}
template <std::size_t I, class In, class... S>
constexpr std::size_t count_from(std::tuple<S...> const& row, shape const& dims) {
  if constexpr (I == last_variable<S...>) {
    return std::get<I>(row).template count_offset<In>(dims);
  } else {
    return own_side<I, In>(row, dims) +
           count_from<I + 1, output_of<stage_at<I, S...>, In>>(row, std::get<I>(row).output_shape(dims));
  }
}
template <std::size_t I, class In, class E, class... S>
constexpr std::size_t scratch_from(std::tuple<S...> const& row, E const& exec, shape const& dims) {
  auto const own = detail::scratch_bytes<In>(std::get<I>(row), exec, dims);
  if constexpr (I + 1 == sizeof...(S)) {
    return own;
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const rest = std::get<I>(row).output_shape(dims);
    return scratch_for<out>(rest.n) + std::max(own, scratch_from<I + 1, out>(row, exec, rest));
  }
}

/// Functions that encode or decode with the stages from index I to the end of the chain.
template <std::size_t I, class In, class E, class Y, class Replicated, class Local, class... S>
void encode_stages(std::tuple<S...> const& row, context<In, E> const& cx, values_on<E, In const> x, Y y,
                   Replicated const& replicated, Local& local) {
  auto const& stage = std::get<I>(row);
  if constexpr (I + 1 == sizeof...(S)) {
    detail::encode<In>(stage, cx, x, y, detail::part<I>(replicated), detail::part<I>(local));
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const scope = cx.ws.mark();
    auto const rest = stage.output_shape(cx.dims);
    auto const mid = cx.ws.template take<out>(rest.n);
    auto const own = stage.template side_bytes<In>(cx.dims);
    auto const to = detail::counted<In>(stage, cx.dims, encoded_on<E, out>{mid, y.side.first(own)});
    detail::encode<In>(stage, cx, x, to, detail::part<I>(replicated), detail::part<I>(local));
    detail::clear_padding<E>(cx.exec, y.side.first(own_side<I, In>(row, cx.dims)), own);
    encode_stages<I + 1>(row, cx.template next<out>(rest), values_on<E, out const>(to.values),
                         Y{y.values, y.side.subspan(own_side<I, In>(row, cx.dims))}, replicated, local);
  }
}
template <std::size_t I, class In, class E, class Y, class Replicated, class... S>
void decode_stages(std::tuple<S...> const& row, context<In, E> const& cx, Y y, values_on<E, In> x,
                   Replicated const& replicated) {
  auto const& stage = std::get<I>(row);
  if constexpr (I + 1 == sizeof...(S)) {
    detail::decode<In>(stage, cx, y, x, detail::part<I>(replicated));
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const scope = cx.ws.mark();
    auto const rest = stage.output_shape(cx.dims);
    auto const mid = cx.ws.template take<out>(rest.n);
    decode_stages<I + 1>(row, cx.template next<out>(rest), Y{y.values, y.side.subspan(own_side<I, In>(row, cx.dims))},
                         mid, replicated);
    detail::decode<In>(stage, cx, encoded_on<E, out const>{mid, y.side.first(stage.template side_bytes<In>(cx.dims))},
                       x, detail::part<I>(replicated));
  }
}

}  // namespace pith::inline v0::detail
