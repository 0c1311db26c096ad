// pith/feedback/detail/fusing.hpp — concepts for a codec and a feedback policy that run in one pass.
#pragma once

#include <pith/codec/rounds.hpp>
#include <pith/ext/source.hpp>
#include <pith/feedback/feedback.hpp>

namespace pith::inline v0::detail {

template <class F, class In, class E>
inline constexpr bool has_sources = requires(F const& f, values_on<E, In const> g, local_of<F, In, E>& l) {
  f.template source<In, E>(g, l);
};

/// True if the codec can encode p and write the residual in one pass. The codec then reads p from the policy's source.
template <class C, class F, class In, class E>
inline constexpr bool fuses_feedback = false;
template <class C, class F, class In, class E>
  requires has_sources<F, In, E>
inline constexpr bool fuses_feedback<C, F, In, E> =
    encodes_from<C, accum<In>, E, typename feedback_source<F, In, E>::type> ||
    encodes_payload_from<C, accum<In>, E, typename feedback_source<F, In, E>::type>;

template <class F, class In, class E>
using feedback_sink = unsent_and_sent_sink<typename feedback_source<F, In, E>::type, In>;

/// True if the codec is a collective whose rounds read p from the policy's source and write the mean to a sink.
template <class C, class F, class In, class E>
inline constexpr bool exchanges_feedback = false;
template <class C, class F, class In, class E>
  requires(fuses_feedback<C, F, In, E> && !has_after_exchange<F, In, E>)
inline constexpr bool exchanges_feedback<C, F, In, E> =
    exchanges_from<C, accum<In>, E, typename feedback_source<F, In, E>::type, feedback_sink<F, In, E>>;

}  // namespace pith::inline v0::detail
