// pith/codec/detail/decoded_mean.hpp — the mean of all ranks' decoded payloads.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/detail/entry_sum.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/split_factor.hpp>
#include <pith/core/transfer.hpp>

#include <cstddef>

namespace pith { inline namespace PITH_ABI { namespace detail {

template <class In, class C, class E>
std::size_t mean_scratch_bytes(C const& c, E const& exec, shape const& dims, unsigned ranks) {
  auto const own = scratch_bytes<In>(c, exec, dims);
  if (ranks == 1 || can_decode_ranks<In, E>(c)) return own;
  if (auto const most = max_entries<In, E>(c, dims); most > 0)
    return own + entry_sum<In>{dims.n, most, ranks}.scratch_bytes();
  return own + scratch_for<In>(dims.n) + scratch_for<accum<In>>(dims.n);
}

/// Computes the mean of all ranks' payloads, which are decoded one at a time and added in rank order.
template <class In, class C, class E, class Replicated>
void decode_one_by_one(C const& c, context<In, E> const& cx, received_on<E> in, accum<In> share, values_on<E, In> x,
                       Replicated const& replicated) {
  auto const size = payload_bytes<In>(c, cx.dims);
  auto const one = cx.ws.template take<In>(cx.dims.n);
  auto const sum = cx.ws.template take<accum<In>>(cx.dims.n);
  auto const by = split_factor(share, cx.ranks);
  for (unsigned rank = 0; rank < cx.ranks; ++rank) {
    decode_payload<In>(c, cx.from_rank(rank), in.from(rank, size), one, replicated);
    if (rank == 0) {
      cx.exec.for_each_index(cx.dims.n, scale<accum<In>, In>{one.data, sum.data, by.before});
    } else {
      cx.exec.for_each_index(cx.dims.n, add_scaled<accum<In>, In>{one.data, sum.data, by.before});
    }
  }
  cx.exec.for_each_index(cx.dims.n, scale<In, accum<In>>{sum.data, x.data, by.after});
}

/// Computes the mean of all ranks' decoded payloads, which are added in rank order. decode_ranks adds all payloads in one
/// pass, and decode_entry_sum adds their entries. Both functions give the same result as decoding one payload at a
/// time, except for the sign of zeros. In a chain, decode_ranks adds the outputs of the last stage, and the other stages
/// decode the mean. With one rank, the mean is the decoded payload. Each value is first divided by a power of two, so
/// that the sum overflows only if the mean does.
template <class In, class C, class E, class Replicated>
void decode_mean(C const& c, context<In, E> const& cx, received_on<E> in, values_on<E, In> x,
                 Replicated const& replicated) {
  auto const scope = cx.ws.mark();
  auto const size = payload_bytes<In>(c, cx.dims);
  if (cx.ranks == 1) return decode_payload<In>(c, cx.from_rank(0), in.from(0, size), x, replicated);
  auto const share = accum<In>{1} / static_cast<accum<In>>(cx.ranks);
  if constexpr (decodes_ranks<C, In, E>) {
    auto const first = received_on<E>{in.from(0, size), in.stride};
    if (c.can_decode_ranks()) return decode_ranks<In>(c, cx, first, share, x, replicated);
  }
  if constexpr (lists_entries<C, In, E>) {
    if (c.max_entries(cx.dims) > 0)
      return decode_entry_sum<In>(c, cx, in.bytes, in.stride, cx.ranks, share, x, replicated);
  }
  decode_one_by_one<In>(c, cx, in, share, x, replicated);
}

}}}  // namespace pith::PITH_ABI::detail
