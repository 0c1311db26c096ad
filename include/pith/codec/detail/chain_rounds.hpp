// pith/codec/detail/chain_rounds.hpp — the rounds of a chain whose last stage is a collective.
#pragma once

#include <pith/codec/detail/chain_promises.hpp>
#include <pith/codec/detail/chain_types.hpp>
#include <pith/codec/rounds.hpp>

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace pith::inline v0::detail {

/// If all stages but the last are summable, all ranks can decode the mean. The chain can then use the last stage's
/// rounds.
template <class... S>
concept ends_in_rounds = heads_summable<S...> && sums_in_chains<last_of<S...>>;

/// The number of scratch bytes that an exchange needs for stage I and all later stages. `In` is the input type of stage
/// I.
template <std::size_t I, class In, class E, class... S>
std::size_t exchange_scratch_from(std::tuple<S...> const& row, E const& exec, shape const& dims, unsigned ranks) {
  auto const& stage = std::get<I>(row);
  if constexpr (I + 1 == sizeof...(S)) {
    return detail::exchange_scratch_bytes<In>(stage, exec, dims, ranks);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const rest = detail::output_shape(stage, dims);
    return scratch_for<out>(rest.n) + std::max(detail::scratch_bytes<In>(stage, exec, dims),
                                               exchange_scratch_from<I + 1, out>(row, exec, rest, ranks));
  }
}

/// Encodes x with stage I and all later stages except the last. Then calls last(id, shape, values).
template <std::size_t I, class In, class E, class Agreed, class Local, class Last, class... S>
void encode_heads(std::tuple<S...> const& row, E const& exec, call const& id, shape const& dims,
                  values_on<E, In const> x, Agreed const& replicated, Local& local, workspace_on<E>& ws,
                  Last const& last) {
  if constexpr (I + 1 == sizeof...(S)) {
    last(id, dims, x);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const& stage = std::get<I>(row);
    auto const scope = ws.mark();
    auto const rest = detail::output_shape(stage, dims);
    auto const mid = ws.template take<out>(rest.n);
    detail::encode<In>(stage, exec, id, dims, x, encoded_on<E, out>{mid, {}}, detail::part<I>(replicated),
                       detail::part<I>(local), ws);
    encode_heads<I + 1, out>(row, exec, next_stage(id), rest, values_on<E, out const>(mid), replicated, local, ws,
                             last);
  }
}
/// Calls last(id, shape, values), which writes the values. Then decodes the values into x. The decoders are those of
/// stage I and all later stages except the last.
template <std::size_t I, class In, class E, class Agreed, class Last, class... S>
void decode_heads(std::tuple<S...> const& row, E const& exec, call const& id, shape const& dims, values_on<E, In> x,
                  Agreed const& replicated, workspace_on<E>& ws, Last const& last) {
  if constexpr (I + 1 == sizeof...(S)) {
    last(id, dims, x);
  } else {
    using out = output_of<stage_at<I, S...>, In>;
    auto const& stage = std::get<I>(row);
    auto const scope = ws.mark();
    auto const rest = detail::output_shape(stage, dims);
    auto const mid = ws.template take<out>(rest.n);
    decode_heads<I + 1, out>(row, exec, next_stage(id), rest, mid, replicated, ws, last);
    detail::decode<In>(stage, exec, id, dims, encoded_on<E, out const>{mid, {}}, x, detail::part<I>(replicated), ws);
  }
}

}  // namespace pith::inline v0::detail
