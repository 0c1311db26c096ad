// pith/codec/detail/chain_walk.hpp — recursion over the stages of a chain: sizes, encoding and decoding.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/detail/chain_promises.hpp>
#include <pith/codec/detail/chain_types.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/source.hpp>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The stages of a chain from stage I to the last stage. In the tail of an any_chain, the index of the first stage is
/// known only at run time.
template <std::size_t I, class... S>
struct chain_tail {
  static constexpr bool may_end = I + 1 == sizeof...(S), may_continue = !may_end;

  std::tuple<S...> const& row;

  static constexpr bool is_last() { return may_end; }
  constexpr auto const& first() const { return std::get<I>(row); }
  constexpr auto rest() const { return chain_tail<I + 1, S...>{row}; }
  /// The state of stage I.
  static constexpr auto& state_in(auto& states) { return detail::part<I>(states); }
};

/// The output type of the first stage of a tail. `In` is the input type of this stage.
template <class Tail, class In>
using output_of_first = output_of<decltype(std::declval<Tail const&>().first()), In>;

/// The number of bytes of a stage's side information, including padding to the next section.
template <class In, class S>
constexpr std::size_t padded_side_bytes(S const& stage, shape const& dims) {
  return align_up(stage.template side_bytes<In>(dims), section_alignment);
}

/// The number of bytes of side information of all stages of a tail. `In` is the input type of the first stage.
template <class In, class Tail>
constexpr std::size_t side_bytes_of(Tail const& tail, shape const& dims) {
  if constexpr (Tail::may_continue) {
    if (!tail.is_last()) {
      auto const rest = tail.first().output_shape(dims);
      return padded_side_bytes<In>(tail.first(), dims) + side_bytes_of<output_of_first<Tail, In>>(tail.rest(), rest);
    }
  }
  return tail.first().template side_bytes<In>(dims);
}

/// The offset of the chain's count in the side information. The count is that of the last variable-rate stage.
template <std::size_t I, class In, class... S>
constexpr std::size_t count_offset_of(chain_tail<I, S...> const& tail, shape const& dims) {
  if constexpr (I == last_variable<S...>) {
    return tail.first().template count_offset<In>(dims);
  } else {
    auto const rest = tail.first().output_shape(dims);
    return padded_side_bytes<In>(tail.first(), dims) +
           count_offset_of<I + 1, output_of<stage_at<I, S...>, In>>(tail.rest(), rest);
  }
}

/// The scratch bytes of all stages of a tail. The last stage needs `of_last` bytes.
template <class In, class Tail, class E>
constexpr std::size_t scratch_bytes_of(Tail const& tail, E const& exec, shape const& dims, std::size_t of_last) {
  if constexpr (Tail::may_continue) {
    if (!tail.is_last()) {
      using mid = output_of_first<Tail, In>;
      auto const rest = tail.first().output_shape(dims);
      auto const later = scratch_bytes_of<mid>(tail.rest(), exec, rest, of_last);
      return scratch_for<mid>(rest.n) + std::max(detail::scratch_bytes<In>(tail.first(), exec, dims), later);
    }
  }
  return of_last;
}

/// Encodes x with all stages of a tail except the last. Then calls last(tail, context, values, y), where `tail` is the
/// last stage, and the side information of y is that of the last stage.
template <class Tail, class In, class E, class Out, class Replicated, class Local, class Last>
void encode_stages(Tail const& tail, context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, Out> y,
                   Replicated const& replicated, Local& local, Last const& last) {
  if constexpr (Tail::may_end) {
    if (tail.is_last()) return last(tail, cx, x, y);
  }
  if constexpr (Tail::may_continue) {
    using mid = output_of_first<Tail, In>;
    auto const& stage = tail.first();
    auto const scope = cx.ws.mark();
    auto const rest = cx.template next<mid>(stage.output_shape(cx.dims));
    auto const own = stage.template side_bytes<In>(cx.dims), padded = padded_side_bytes<In>(stage, cx.dims);
    auto const values = cx.ws.template take<mid>(rest.dims.n);
    auto const to = detail::counted<In>(stage, cx.dims, encoded_on<E, mid>{values, y.side.first(own)});
    detail::encode<In>(stage, cx, x, to, tail.state_in(replicated), tail.state_in(local));
    detail::clear_padding<E>(cx.exec, y.side.first(padded), own);
    encode_stages(tail.rest(), rest, values_on<E, mid const>(to.values),
                  encoded_on<E, Out>{y.values, y.side.subspan(padded)}, replicated, local, last);
  }
}
/// Encodes x with all stages of a tail.
template <class Tail, class In, class E, class Out, class Replicated, class Local>
void encode_stages(Tail const& tail, context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, Out> y,
                   Replicated const& replicated, Local& local) {
  auto const encode_last = [&](auto const& end, auto const& own, auto values, auto to) {
    detail::encode(end.first(), own, values, to, end.state_in(replicated), end.state_in(local));
  };
  encode_stages(tail, cx, x, y, replicated, local, encode_last);
}

/// Calls last(tail, context, y, values), where `tail` is the last stage, the side information of y is that of the last
/// stage, and `last` writes the values. Then decodes the values into x with the other stages of the tail.
template <class Tail, class In, class E, class Out, class Replicated, class Last>
void decode_stages(Tail const& tail, context<In, E> const& cx, encoded_on<E, Out const> y, values_on<E, In> x,
                   Replicated const& replicated, Last const& last) {
  if constexpr (Tail::may_end) {
    if (tail.is_last()) {
      auto const scope = cx.ws.mark();
      return last(tail, cx, y, x);
    }
  }
  if constexpr (Tail::may_continue) {
    using mid = output_of_first<Tail, In>;
    auto const& stage = tail.first();
    auto const scope = cx.ws.mark();
    auto const rest = cx.template next<mid>(stage.output_shape(cx.dims));
    auto const side = y.side.first(stage.template side_bytes<In>(cx.dims));
    auto const values = cx.ws.template take<mid>(rest.dims.n);
    auto const tail_of_y = encoded_on<E, Out const>{y.values, y.side.subspan(padded_side_bytes<In>(stage, cx.dims))};
    decode_stages(tail.rest(), rest, tail_of_y, values, replicated, last);
    detail::decode<In>(stage, cx, encoded_on<E, mid const>{values, side}, x, tail.state_in(replicated));
  }
}
/// Decodes y with all stages of a tail.
template <class Tail, class In, class E, class Out, class Replicated>
void decode_stages(Tail const& tail, context<In, E> const& cx, encoded_on<E, Out const> y, values_on<E, In> x,
                   Replicated const& replicated) {
  auto const decode_last = [&](auto const& end, auto const& own, auto from, auto values) {
    detail::decode(end.first(), own, from, values, end.state_in(replicated));
  };
  decode_stages(tail, cx, y, x, replicated, decode_last);
}

/// Encodes from a source: the first stage selects entries, and the other stages encode their values. Then the first
/// stage writes the decoded values back to the source, and the source updates its residual.
template <class Tail, class In, class E, class Source, class Out, class Replicated, class Local>
void encode_selected(Tail const& tail, context<In, E> const& cx, Source const& from, encoded_on<E, Out> y,
                     Replicated const& replicated, Local& local) {
  auto const& stage = tail.first();
  auto const rest = cx.template next<In>(stage.output_shape(cx.dims));
  auto const own = stage.template side_bytes<In>(cx.dims), padded = padded_side_bytes<In>(stage, cx.dims);
  auto const selected = stage.make_selected(cx);
  auto const to = encoded_on<E, Out>{y.values, y.side.subspan(padded)};
  stage.select_from(cx, from, selected, y.side.first(own));
  detail::clear_padding<E>(cx.exec, y.side.first(padded), own);
  encode_stages(tail.rest(), rest, values_on<E, In const>{selected.values, rest.dims.n}, to, replicated, local);
  auto const sent = cx.ws.template take<In>(rest.dims.n);
  decode_stages(tail.rest(), rest, encoded_on<E, Out const>(to), sent, replicated);
  stage.write_back(cx, from, selected, sent.data);
}
template <class In, class Source, class Tail, class E>
std::size_t scratch_bytes_of_selected(Tail const& tail, E const& exec, shape const& dims, std::size_t of_last) {
  auto const rest = tail.first().output_shape(dims);
  return detail::scratch_bytes_from<In, Source>(tail.first(), exec, dims) + scratch_for<In>(rest.n) +
         scratch_bytes_of<In>(tail.rest(), exec, rest, of_last);
}

/// Decodes the values of the entries that the first stage emitted, and writes the entries to `to`.
template <class Tail, class In, class E, class Out, class Replicated>
void decode_entries_of(Tail const& tail, context<In, E> const& cx, encoded_on<E, Out const> y,
                       ext::selected_entries<In> const& to, Replicated const& replicated) {
  using mid = output_of_first<Tail, In>;
  auto const& stage = tail.first();
  auto const rest = cx.template next<mid>(stage.output_shape(cx.dims));
  auto const values = cx.ws.template take<mid>(rest.dims.n);
  auto const side = y.side.subspan(padded_side_bytes<In>(stage, cx.dims));
  decode_stages(tail.rest(), rest, encoded_on<E, Out const>{y.values, side}, values, replicated);
  stage.decode_entries(cx, encoded_on<E, mid const>{values, y.side.first(stage.template side_bytes<In>(cx.dims))}, to);
}

}}}  // namespace pith::PITH_ABI::detail
