// pith/feedback/detail/feedback_way.hpp — how error feedback runs a codec: in one pass, or in several.
#pragma once

#include <pith/codec/rounds.hpp>
#include <pith/core/source.hpp>
#include <pith/feedback/feedback.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// How error feedback exchanges a tensor.
enum class feedback_way : std::uint8_t {
  unchanged,   ///< the codec is lossless, and the policy changes no gradient: p is g
  one_pass,    ///< the codec encodes p from the policy's source, and stores the residual in the same pass
  in_rounds,   ///< the codec's rounds read p from the policy's source, and the last round stores the residual
  own_share,   ///< compensate, produce; update with the rank's own share after contributing_round
  after_mean,  ///< compensate, produce; after the last round compensate again, and update with `delivered` or the mean
};

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
    reads_source<C, accum<In>, E, typename feedback_source<F, In, E>::type>;

/// True if every policy of this type has a source: has_source() is a static function that returns true.
template <class F>
concept always_has_source = requires {
  requires F::has_source();
};

/// True if the codec inherits is_lossless, which returns false.
template <class C>
concept never_lossless = requires {
  requires is_inherited(&C::is_lossless);
};
/// True if every codec of type C can encode from a source for every shape, and no codec of type C is lossless or
/// summable.
template <class C, class E>
inline constexpr bool always_encodes_from = never_lossless<C> && encodes_every_shape<C, E> &&
                                            traits_of<C>.sums == sum_form::none &&
                                            !requires(C const& c) { c.sums_as(); };

template <class F, class In, class E>
using feedback_sink = unsent_and_sent_sink<typename feedback_source<F, In, E>::type, In>;

/// True if the codec is a collective whose rounds read p from the policy's source and write the mean to a sink.
template <class C, class F, class In, class E>
inline constexpr bool exchanges_feedback = false;
template <class C, class F, class In, class E>
  requires(fuses_feedback<C, F, In, E> && !has_after_exchange<F, In, E>)
inline constexpr bool exchanges_feedback<C, F, In, E> =
    exchanges_from<C, accum<In>, E, typename feedback_source<F, In, E>::type, feedback_sink<F, In, E>>;

}}}  // namespace pith::PITH_ABI::detail
