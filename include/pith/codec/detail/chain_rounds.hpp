// pith/codec/detail/chain_rounds.hpp — the rounds of a chain whose last stage is a collective.
#pragma once

#include <pith/codec/detail/chain_promises.hpp>
#include <pith/codec/detail/chain_types.hpp>
#include <pith/codec/rounds.hpp>

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace pith::inline v0::detail {

/// True if the last stage is a collective with sums_in_chains, and all other stages are summable. The chain then uses
/// the rounds of its last stage, and all ranks can decode the mean with the other stages.
template <class... S>
concept ends_in_rounds = heads_summable<S...> && (traits_of<last_of<S...>>.sums_in_chains);

/// The number of scratch bytes that an exchange needs for stage I and all later stages. `In` is the input type of stage
/// I.
template <std::size_t I, class In, class E, class... S>
std::size_t exchange_scratch_from(std::tuple<S...> const& row, E const& exec, shape const& dims, unsigned ranks) {
  auto const& stage = std::get<I>(row);
  if constexpr (I + 1 == sizeof...(S)) {
    return detail::exchange_scratch_bytes<In>(stage, exec, dims, ranks);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const rest = stage.output_shape(dims);
    return scratch_for<out>(rest.n) + std::max(detail::scratch_bytes<In>(stage, exec, dims),
                                               exchange_scratch_from<I + 1, out>(row, exec, rest, ranks));
  }
}

/// Encodes x with stage I and all later stages except the last. Then calls last(context, values).
template <std::size_t I, class In, class E, class Replicated, class Local, class Last, class... S>
void encode_heads(std::tuple<S...> const& row, context<In, E> const& cx, values_on<E, In const> x,
                  Replicated const& replicated, Local& local, Last const& last) {
  if constexpr (I + 1 == sizeof...(S)) {
    last(cx, x);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const& stage = std::get<I>(row);
    auto const scope = cx.ws.mark();
    auto const rest = stage.output_shape(cx.dims);
    auto const mid = cx.ws.template take<out>(rest.n);
    detail::encode<In>(stage, cx, x, encoded_on<E, out>{mid, {}}, detail::part<I>(replicated), detail::part<I>(local));
    encode_heads<I + 1>(row, cx.template next<out>(rest), values_on<E, out const>(mid), replicated, local, last);
  }
}
/// Calls last(context, values), which writes the values. Then decodes the values into x. The decoders are those of
/// stage I and all later stages except the last.
template <std::size_t I, class In, class E, class Replicated, class Last, class... S>
void decode_heads(std::tuple<S...> const& row, context<In, E> const& cx, values_on<E, In> x,
                  Replicated const& replicated, Last const& last) {
  if constexpr (I + 1 == sizeof...(S)) {
    last(cx, x);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const& stage = std::get<I>(row);
    auto const scope = cx.ws.mark();
    auto const rest = stage.output_shape(cx.dims);
    auto const mid = cx.ws.template take<out>(rest.n);
    decode_heads<I + 1>(row, cx.template next<out>(rest), mid, replicated, last);
    detail::decode<In>(stage, cx, encoded_on<E, out const>{mid, {}}, x, detail::part<I>(replicated));
  }
}

}  // namespace pith::inline v0::detail
