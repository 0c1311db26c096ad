// pith/codec/detail/own_share.hpp — a rank's own share of the decoded mean, for error feedback.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/detail/convert.hpp>

#include <cstddef>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The mean of all ranks' own shares is the decoded mean. True if a rank can compute its own share from the buffer that
/// it produced. Otherwise, error feedback uses the result of `delivered`, or the mean, in place of the own share.
template <class C, class In, class E>
concept has_contribution =
    !collective<C, In, E> || requires(C const& c, context<In, E> const& cx, span_on<E, std::byte const> produced,
                                      values_on<E, In> sent, replicated_of<C, In, E> const& replicated) {
  c.contribution(cx, produced, sent, replicated);
};

/// The round after which the rank's own share is available and the codec does not read the gradient again. By default,
/// this round is the last one.
template <class C>
unsigned contributing_round(C const& c, shape const& dims, unsigned ranks) {
  if constexpr (requires { c.contributing_round(ranks); }) {
    return c.contributing_round(ranks);
  } else {
    return c.rounds(dims, ranks) - 1;
  }
}

/// True if the codec returns the rank's own share, or if `own_contribution` can compute this share at additional cost.
template <class C, class In, class E>
concept reports_contribution = has_contribution<C, In, E> ||
    requires(C const& c, context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
             replicated_of<C, In, E> const& replicated) {
  c.own_contribution(cx, produced, sent, replicated);
};

/// True if, after the last round, the codec can compute the part of the compensated gradient p that this rank
/// contributed to the mean.
template <class C, class In, class E>
concept reports_delivered = collective<C, In, E> &&
    requires(C const& c, context<In, E> const& cx, values_on<E, In const> p, values_on<E, In const> mean,
             values_on<E, In> sent, replicated_of<C, In, E> const& replicated, local_of<C, In, E> const& local) {
  c.delivered(cx, p, mean, sent, replicated, local);
};

/// The additional scratch bytes that `contribution` needs if D is affine. These bytes hold an all-zero payload and
/// D(0).
template <class In, class C>
std::size_t contribution_scratch_bytes([[maybe_unused]] C const& c, [[maybe_unused]] shape const& dims) {
  if constexpr (maybe_affine<C>) {
    if (!is_affine(c) || sums(c) != sum_form::decode) return 0;
    return scratch_for<std::byte>(payload_bytes<In>(c, dims)) + scratch_for<In>(dims.n);
  } else {
    return 0;
  }
}

/// Sets `sent` to N (sent - D(0)) + D(0). Before the call, `sent` is D(z_i) on rank i, where z_i is the rank's payload.
/// If D is affine, the mean of the results over the ranks is D(sum z_i).
template <class In, class C, class E, class Replicated>
void scale_about_zero(C const& c, context<In, E> const& cx, values_on<E, In> sent, Replicated const& replicated) {
  auto const scope = cx.ws.mark();
  auto const size = payload_bytes<In>(c, cx.dims);
  auto const empty = cx.ws.take_bytes(size);
  auto const zero = cx.ws.template take<In>(cx.dims.n);
  cx.exec.fill(empty.data(), std::byte{}, size);
  decode_payload<In>(c, cx, empty, zero, replicated);
  cx.exec.for_each_index(cx.dims.n, scale_difference<In>{zero.data, sent.data, static_cast<accum<In>>(cx.ranks)});
  cx.exec.for_each_index(cx.dims.n, add<In, In>{zero.data, sent.data});
}

template <class In, class C, class E, class Replicated>
void contribution(C const& c, context<In, E> const& cx, span_on<E, std::byte const> produced, values_on<E, In> sent,
                  Replicated const& replicated) {
  if constexpr (!has_contribution<C, In, E>) {
    c.own_contribution(cx, produced, sent, replicated);
  } else if constexpr (collective<C, In, E>) {
    c.contribution(cx, produced, sent, replicated);
  } else {
    auto const divisor = sum_divisor<In>(c, cx.dims, cx.ranks);
    decode_payload<In>(c, cx, produced, sent, replicated);
    if constexpr (maybe_affine<C>) {
      if (is_affine(c) && sums(c) == sum_form::decode && divisor > 1)
        return scale_about_zero<In>(c, cx, sent, replicated);
    }
    rescale<In>(cx.exec, sent, divisor);
  }
}

}}}  // namespace pith::PITH_ABI::detail
