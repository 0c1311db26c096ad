// pith/codec/rounds.hpp — an exchange as a sequence of rounds: produce a buffer, transfer it, absorb the result.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/detail/decoded_mean.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/transfer.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI {

class identity;  // pith/adaptor/identity.hpp

/// A codec with its own rounds. In each round, every rank produces a buffer, the transfer moves the buffers, and every
/// rank absorbs the data that it received. `x` contains the gradient until the last absorb, which writes the mean over
/// the ranks to `x`.
template <class C, class In, class E>
concept collective = std::derived_from<C, codec_base> &&
    requires(C const& c, context<In, E> const& cx, unsigned round, values_on<E, In const> g, values_on<E, In> x,
             span_on<E, std::byte> out, received_on<E> in, replicated_of<C, In, E>& replicated,
             local_of<C, In, E>& local) {
  { c.rounds(cx.dims, cx.ranks) } -> std::same_as<unsigned>;
  { c.template round<In>(round, cx.dims, cx.ranks) } -> std::same_as<transfer>;
  { c.template exchange_scratch_bytes<In>(cx.exec, cx.dims, cx.ranks) } -> std::same_as<std::size_t>;
  { c.produce(cx, round, g, out, std::as_const(replicated), local) } -> std::same_as<void>;
  { c.absorb(cx, round, in, x, replicated, local) } -> std::same_as<void>;
};

namespace detail {

/// A codec that an exchange can use. The exchange of a collective consists of the collective's rounds. A summable codec
/// uses one all-reduce, or one mean if its payloads have values of 16 bits. Any other codec uses one all-gather.
template <class C, class In, class E>
concept exchangeable = collective<C, In, E> || codec<C, In, E>;

/// The form in which the transport may add a codec's payloads. Type-erased codecs return the form at run time.
template <class C>
constexpr sum_form sums(C const& c) {
  if constexpr (requires {
                  { c.sums_as() } -> std::same_as<sum_form>;
                }) {
    return c.sums_as();
  } else {
    return traits_of<C>.sums;
  }
}

/// True if codecs of type C may have an affine decoder. is_affine returns whether the decoder of one codec is affine.
template <class C>
concept maybe_affine = (traits_of<C>.affine || requires(C const& c) {
  { c.decodes_affinely() } -> std::same_as<bool>;
});
template <class C>
constexpr bool is_affine([[maybe_unused]] C const& c) {
  if constexpr (requires { c.decodes_affinely(); }) {
    return c.decodes_affinely();
  } else {
    return traits_of<C>.affine;
  }
}

/// The element kind of a summable codec's values; `bytes` for other codecs.
template <class In, class C>
constexpr element_kind value_kind(C const& c) {
  if constexpr (requires {
                  { c.value_kind() } -> std::same_as<element_kind>;
                }) {
    return c.value_kind();
  } else if constexpr (traits_of<C>.is_summable()) {
    return kind_of<output_of<C, In>>();
  } else {
    return element_kind::bytes;
  }
}

template <class In, class C>
transfer transfer_of(C const& c, unsigned round, shape const& dims, unsigned ranks) {
  if constexpr (requires { c.template round<In>(round, dims, ranks); }) {
    return c.template round<In>(round, dims, ranks);
  } else {
    if (sums(c) == sum_form::none) return {transport::all_gather, element_kind::bytes, payload_bytes<In>(c, dims)};
    auto const kind = value_kind<In>(c);
    auto const how = is_narrow(kind) ? transport::all_reduce_mean : transport::all_reduce_sum;
    auto const moves = transfer{how, kind, c.output_shape(dims).n};
    if (auto const payload = payload_bytes<In>(c, dims); payload != moves.bytes()) {
      throw std::invalid_argument(sentence("stage: a summable stage must have no side information, got ",
                                           payload - moves.bytes(), " bytes of ", c.name()));
    }
    return moves;
  }
}

/// The number by which each rank divides its term before the transport sums the terms. A sum might overflow even if the
/// mean does not. With sum_form::encode, a rank divides its payload, by a power of two, because this division changes no
/// digit. With sum_form::decode, a rank divides its gradient. Exception: divides_payload(). If the transport computes
/// means, the number is 1.
template <class In, class C>
unsigned sum_divisor(C const& c, shape const& dims, unsigned ranks) {
  auto const form = sums(c);
  if (form == sum_form::none || transfer_of<In>(c, 0, dims, ranks).how == transport::all_reduce_mean) return 1;
  return form == sum_form::decode ? ranks : std::bit_ceil(ranks);
}

/// The factor from the decoded sum to the mean. If the transport computes means, the factor is 1.
template <class In, class C>
double mean_factor(C const& c, shape const& dims, unsigned ranks) {
  if (transfer_of<In>(c, 0, dims, ranks).how == transport::all_reduce_mean) return 1;
  return static_cast<double>(sum_divisor<In>(c, dims, ranks)) / ranks;
}

/// True if a rank receives the other ranks' buffers separately, instead of a sum, maximum or mean.
constexpr bool is_separate(transport how) {
  return how != transport::all_reduce_sum && how != transport::all_reduce_max && how != transport::all_reduce_mean;
}

/// The number of pieces that a rank receives: one from each rank, one from a single rank, or 0 if the transport reduces
/// the buffers in place.
constexpr unsigned received_pieces(transport how, unsigned ranks) {
  if (how == transport::pairwise || how == transport::ring_shift) return 1;
  return is_separate(how) ? ranks : 0;
}

/// The number of pieces that a rank produces: one per rank, or one for all ranks.
constexpr unsigned pieces(transport how, unsigned ranks) { return how == transport::all_to_all ? ranks : 1; }

/// The bytes of one piece of a round. A piece that arrives separately is padded, so that the next piece is aligned.
constexpr std::size_t padded_bytes(transfer const& moves) {
  return is_separate(moves.how) ? align_up(moves.bytes(), section_alignment) : moves.bytes();
}

/// The size of a mean's buffer, which is padded so that each rank has an aligned piece of equal size.
constexpr std::size_t divisible(std::size_t bytes, unsigned ranks) {
  return align_up(bytes, ranks * section_alignment);
}

/// The sizes of a rank's buffers in a round: the buffer that it produces, and the buffer beside it that it receives.
struct round_bytes {
  std::size_t sent, received;
};
constexpr round_bytes bytes_of(transfer const& moves, unsigned all) {
  auto const ranks = moves.among.ranks(all);
  auto const piece = padded_bytes(moves);
  if (moves.how == transport::all_reduce_mean) return {divisible(piece, ranks), divisible(piece, ranks)};
  return {piece * pieces(moves.how, ranks), piece * received_pieces(moves.how, ranks)};
}

template <class In, class C, class E>
std::size_t exchange_scratch_bytes(C const& c, E const& exec, shape const& dims, unsigned ranks) {
  if constexpr (collective<C, In, E>) {
    return c.template exchange_scratch_bytes<In>(exec, dims, ranks);
  } else {
    if (sums(c) == sum_form::none) return mean_scratch_bytes<In>(c, exec, dims, ranks);
    auto const is_divided = sums(c) == sum_form::decode && sum_divisor<In>(c, dims, ranks) > 1;
    return (is_divided ? scratch_for<In>(dims.n) : 0) + scratch_bytes<In>(c, exec, dims);
  }
}

template <class In, class E>
void rescale(E const& exec, values_on<E, In> x, double factor) {
  if (factor == 1) return;
  exec.for_each_index(x.capacity, scale<In, In>{x.data, x.data, static_cast<accum<In>>(factor)});
}

/// Returns factor * x in scratch memory, or x itself if the factor is 1.
template <class In, class E>
values_on<E, In const> scaled(E const& exec, values_on<E, In const> x, double factor, workspace_on<E>& ws) {
  if (factor == 1) return x;
  auto const y = ws.template take<In>(x.capacity);
  exec.for_each_index(x.capacity, scale<In, In>{x.data, y.data, static_cast<accum<In>>(factor)});
  return y;
}

/// Sets to[i] to factor * from[i]. Both the encoder and the decoder of a sum of `identity` payloads call this function.
template <class In, class E>
void copy_scaled(E const& exec, In const* from, In* to, std::uint64_t n, double factor) {
  exec.for_each_index(n, scale<In, In>{from, to, static_cast<accum<In>>(factor)});
}

/// Multiplies the values of a summable codec's payload, floats or doubles, by a factor.
template <class T, class E>
void scale_values(E const& exec, span_on<E, std::byte> payload, double factor) {
  auto* const values = reinterpret_cast<T*>(payload.data());
  copy_scaled<T>(exec, values, values, payload.size() / sizeof(T), factor);
}
template <class E>
void scale_payload(E const& exec, element_kind kind, span_on<E, std::byte> payload, double factor) {
  if (kind == element_kind::f32) return scale_values<float>(exec, payload, factor);
  if (kind == element_kind::f64) return scale_values<double>(exec, payload, factor);
  throw std::invalid_argument(
      sentence("stage: with sum_form::encode, a stage must emit float or double, got ", name_of(kind)));
}
/// Whether to divide the payload in place of the gradient. A gradient of 16 bits loses digits in a division. If its
/// payload has values of float or double and the decoder is not affine, the payload is divided.
template <class In, class C>
bool divides_payload(C const& c, element_kind kind) {
  if (sums(c) == sum_form::encode) return true;
  return is_narrow(kind_of<In>()) && !is_affine(c) && (kind == element_kind::f32 || kind == element_kind::f64);
}

/// Encodes this rank's term of a sum of payloads, which is divided by sum_divisor.
template <class In, class C, class E, class Replicated, class Local>
void encode_term(C const& c, context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> out,
                 Replicated const& replicated, Local& local) {
  auto const share = 1.0 / sum_divisor<In>(c, cx.dims, cx.ranks);
  if (share == 1) return encode_payload<In>(c, cx, x, out, replicated, local);
  if constexpr (std::same_as<C, identity>) {
    return copy_scaled(cx.exec, x.data, reinterpret_cast<In*>(out.data()), x.capacity, share);
  } else {
    auto const kind = transfer_of<In>(c, 0, cx.dims, cx.ranks).kind;
    if (!divides_payload<In>(c, kind))
      return encode_payload<In>(c, cx, scaled<In>(cx.exec, x, share, cx.ws), out, replicated, local);
    encode_payload<In>(c, cx, x, out, replicated, local);
    scale_payload(cx.exec, kind, out, share);
  }
}

/// Decodes the sum of all ranks' terms to the mean.
template <class In, class C, class E, class Replicated>
void decode_sum_of_terms(C const& c, context<In, E> const& cx, span_on<E, std::byte const> in, values_on<E, In> x,
                         Replicated const& replicated) {
  auto const factor = mean_factor<In>(c, cx.dims, cx.ranks);
  if constexpr (std::same_as<C, identity>) {
    if (factor != 1) return copy_scaled(cx.exec, reinterpret_cast<In const*>(in.data()), x.data, x.capacity, factor);
  }
  decode_payload<In>(c, cx, in, x, replicated);
  rescale<In>(cx.exec, x, factor);
}

/// A collective that can read its input from a source and write the mean to a sink. Callers call `produce_from` and
/// `absorb_to` only for shapes for which the codec is lossy.
template <class C, class In, class E, class Source, class Sink>
concept exchanges_from = collective<C, In, E> &&
    requires(C const& c, context<In, E> const& cx, unsigned round, Source const& from, span_on<E, std::byte> out,
             received_on<E> in, Sink const& to, replicated_of<C, In, E>& replicated) {
  { c.produce_from(cx, round, from, out, std::as_const(replicated)) } -> std::same_as<void>;
  { c.absorb_to(cx, in, to, replicated) } -> std::same_as<void>;
};

template <class In, class C, class E, class Replicated, class Local>
void produce(C const& c, context<In, E> const& cx, [[maybe_unused]] unsigned round, values_on<E, In const> x,
             span_on<E, std::byte> out, Replicated const& replicated, Local& local) {
  auto const scope = cx.ws.mark();
  if constexpr (collective<C, In, E>) {
    c.produce(cx, round, x, out, replicated, local);
  } else {
    encode_term<In>(c, cx, x, out, replicated, local);
  }
}

template <class In, class C, class E, class Replicated, class Local>
void absorb(C const& c, context<In, E> const& cx, [[maybe_unused]] unsigned round, received_on<E> in,
            values_on<E, In> x, Replicated& replicated, [[maybe_unused]] Local& local) {
  auto const scope = cx.ws.mark();
  if constexpr (collective<C, In, E>) {
    c.absorb(cx, round, in, x, replicated, local);
  } else if (sums(c) == sum_form::none) {
    decode_mean<In>(c, cx, in, x, replicated);
  } else {
    decode_sum_of_terms<In>(c, cx, in.bytes, x, replicated);
  }
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
