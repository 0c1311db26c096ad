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
  return align_up(detail::side_bytes<In>(std::get<I>(row), dims), section_alignment);
}

/// Sizes for stage I and all later stages: the bytes of side information, the offset of the count in the side
/// information, and the scratch bytes. `In` is the input type of stage I.
template <std::size_t I, class In, class... S>
constexpr std::size_t side_from(std::tuple<S...> const& row, shape const& dims) {
  if constexpr (I + 1 == sizeof...(S)) {
    return detail::side_bytes<In>(std::get<I>(row), dims);
  } else {
    return own_side<I, In>(row, dims) +
           side_from<I + 1, output_of<stage_at<I, S...>, In>>(row, detail::output_shape(std::get<I>(row), dims));
  }
}
template <std::size_t I, class In, class... S>
constexpr std::size_t count_from(std::tuple<S...> const& row, shape const& dims) {
  if constexpr (I == last_variable<S...>) {
    return detail::count_offset<In>(std::get<I>(row), dims);
  } else {
    return own_side<I, In>(row, dims) +
           count_from<I + 1, output_of<stage_at<I, S...>, In>>(row, detail::output_shape(std::get<I>(row), dims));
  }
}
template <std::size_t I, class In, class E, class... S>
constexpr std::size_t scratch_from(std::tuple<S...> const& row, E const& exec, shape const& dims) {
  auto const own = detail::scratch_bytes<In>(std::get<I>(row), exec, dims);
  if constexpr (I + 1 == sizeof...(S)) {
    return own;
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const rest = detail::output_shape(std::get<I>(row), dims);
    return scratch_for<out>(rest.n) + std::max(own, scratch_from<I + 1, out>(row, exec, rest));
  }
}

/// Functions that encode or decode with stage I and all later stages.
template <std::size_t I, class In, class E, class Y, class Agreed, class Local, class... S>
void encode_stages(std::tuple<S...> const& row, E const& exec, call const& id, shape const& dims,
                   values_on<E, In const> x, Y y, Agreed const& replicated, Local& local, workspace_on<E>& ws) {
  auto const& stage = std::get<I>(row);
  if constexpr (I + 1 == sizeof...(S)) {
    detail::encode<In>(stage, exec, id, dims, x, y, detail::part<I>(replicated), detail::part<I>(local), ws);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const scope = ws.mark();
    auto const rest = detail::output_shape(stage, dims);
    auto const mid = ws.template take<out>(rest.n);
    auto const own = detail::side_bytes<In>(stage, dims);
    auto const to = detail::counted<In>(stage, dims, encoded_on<E, out>{mid, y.side.first(own)});
    detail::encode<In>(stage, exec, id, dims, x, to, detail::part<I>(replicated), detail::part<I>(local), ws);
    detail::clear_padding<E>(exec, y.side.first(own_side<I, In>(row, dims)), own);
    encode_stages<I + 1, out>(row, exec, next_stage(id), rest, values_on<E, out const>(to.values),
                              Y{y.values, y.side.subspan(own_side<I, In>(row, dims))}, replicated, local, ws);
  }
}
template <std::size_t I, class In, class E, class Y, class Agreed, class... S>
void decode_stages(std::tuple<S...> const& row, E const& exec, call const& id, shape const& dims, Y y,
                   values_on<E, In> x, Agreed const& replicated, workspace_on<E>& ws) {
  auto const& stage = std::get<I>(row);
  if constexpr (I + 1 == sizeof...(S)) {
    detail::decode<In>(stage, exec, id, dims, y, x, detail::part<I>(replicated), ws);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const scope = ws.mark();
    auto const rest = detail::output_shape(stage, dims);
    auto const mid = ws.template take<out>(rest.n);
    decode_stages<I + 1, out>(row, exec, next_stage(id), rest, Y{y.values, y.side.subspan(own_side<I, In>(row, dims))},
                              mid, replicated, ws);
    detail::decode<In>(stage, exec, id, dims,
                       encoded_on<E, out const>{mid, y.side.first(detail::side_bytes<In>(stage, dims))}, x,
                       detail::part<I>(replicated), ws);
  }
}

}  // namespace pith::inline v0::detail
