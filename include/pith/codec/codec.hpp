// pith/codec/codec.hpp — the codec concept: encoding of values to a payload, and decoding; every stage is a codec.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/transfer.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>

namespace pith { inline namespace PITH_ABI {

namespace detail {

inline constexpr std::size_t section_alignment = 8;  ///< in bytes; the sections are the values and the side information

template <class C, class In, class E>
concept has_payload = std::derived_from<C, codec_base> &&
    requires(C const& c, context<In, E> const& cx, values_on<E, In const> x, values_on<E, In> to,
             span_on<E, std::byte> out, span_on<E, std::byte const> payload, replicated_of<C, In, E> const& replicated,
             local_of<C, In, E>& local) {
  { c.name() } -> std::convertible_to<std::string>;
  { c.template payload_bytes<In>(cx.dims) } -> std::same_as<std::size_t>;
  { c.encode_payload(cx, x, out, replicated, local) } -> std::same_as<void>;
  { c.decode_payload(cx, payload, to, replicated) } -> std::same_as<void>;
};

}  // namespace detail

/// A codec is a stage, or a class with the members payload_bytes, encode_payload and decode_payload. The payload of a
/// stage is its values, followed by its side information.
template <class C, class In, class E>
concept codec = (executor<E> && (stage<C, In, E> || detail::has_payload<std::remove_cvref_t<C>, In, E>));

/// The maximum size of a payload in bytes, which does not depend on the data.
template <class In, class C>
constexpr std::size_t payload_bytes(C const& c, shape const& dims) {
  if constexpr (requires { c.template payload_bytes<In>(dims); }) {
    return c.template payload_bytes<In>(dims);
  } else {
    auto const values = value_bytes<output_of<C, In>>(c.output_shape(dims).n);
    auto const side = c.template side_bytes<In>(dims);
    return side == 0 ? values : detail::align_up(values, detail::section_alignment) + side;
  }
}

namespace detail {

/// Returns a view of a stage's payload as two sections: n values, and the side information.
template <class Out, class E, class Byte>
auto sections(std::uint64_t n, span_on<E, Byte> payload) {
  using element = std::conditional_t<std::is_const_v<Byte>, Out const, Out>;
  auto const values = std::min(payload.size(), align_up(value_bytes<Out>(n), section_alignment));
  auto* words = reinterpret_cast<typename storage<element>::word*>(payload.data());
  return encoded_on<E, element>{{words, n, nullptr}, payload.subspan(values)};
}

/// Zeroes the bytes of a section after its first `used` bytes, so that equal calls give equal payloads.
template <class E>
void clear_padding(E const& exec, span_on<E, std::byte> section, std::size_t used) {
  if (used < section.size()) exec.fill(section.data() + used, std::byte{}, section.size() - used);
}

/// Zeroes the padding after the values of a payload. Returns a view of the payload, as `sections` does.
template <class In, class C, class E>
auto cleared_sections(C const& c, context<In, E> const& cx, span_on<E, std::byte> payload) {
  auto const n = c.output_shape(cx.dims).n;
  auto const y = sections<output_of<C, In>, E, std::byte>(n, payload);
  clear_padding<E>(cx.exec, payload.first(payload.size() - y.side.size()), value_bytes<output_of<C, In>>(n));
  return y;
}

/// Returns a view of a stage's payload as its output.
template <class In, class C, class E>
auto output_in(C const& c, context<In, E> const& cx, span_on<E, std::byte const> payload) {
  return sections<output_of<C, In>, E, std::byte const>(c.output_shape(cx.dims).n, payload);
}

template <class In, class C, class E, class Replicated, class Local>
void encode_payload(C const& c, context<In, E> const& cx, values_on<E, In const> x, span_on<E, std::byte> payload,
                    Replicated const& replicated, Local& local) {
  if constexpr (has_payload<C, In, E>) {
    auto const scope = cx.ws.mark();
    c.encode_payload(cx, x, payload, replicated, local);
  } else {
    encode<In>(c, cx, x, cleared_sections<In>(c, cx, payload), replicated, local);
  }
}

/// A codec that can read its input from a source. If the source writes back residuals (core/source.hpp), the codec passes
/// the decoded values to the source. A stage writes values and side information; a codec that is not a stage writes a
/// payload, and receives its states.
template <class C, class In, class E, class Source>
concept reads_source =
    (!has_payload<C, In, E> &&
     requires(C const& c, context<In, E> const& cx, Source const& from, encoded_on<E, output_of<C, In>> y) {
       { c.encode_from(cx, from, y) } -> std::same_as<void>;
     }) ||
    (has_payload<C, In, E> &&
     requires(C const& c, context<In, E> const& cx, Source const& from, span_on<E, std::byte> payload,
              replicated_of<C, In, E> const& replicated, local_of<C, In, E>& local) {
       { c.encode_from(cx, from, payload, replicated, local) } -> std::same_as<void>;
     });

/// Whether a member function of a codec is that of codec_base, and not a function that the codec declares.
template <class C>
constexpr bool is_inherited(bool (C::*)(shape const&) const) {
  return std::same_as<C, codec_base>;
}

/// True if the codec inherits can_encode_from, which returns true, or has the member encodes_every_shape.
template <class C, class E>
concept encodes_every_shape = (has_computed_facets<C> && requires { requires C::encodes_every_shape; }) || requires {
  requires is_inherited(&C::template can_encode_from<E>);
};

/// A sparsifier that selects entries from a source. After the next stage has encoded the entries, `write_back` passes
/// the decoded values of the entries to the source.
template <class S, class In, class E, class Source>
concept selects_from = declares<S, selects> &&
    requires(S const& s, context<In, E> const& cx, Source const& from, span_on<E, std::byte> side, In const* sent) {
  s.select_from(cx, from, s.make_selected(cx), side);
  s.write_back(cx, from, s.make_selected(cx), sent);
};

template <class In, class Source, class C, class E>
std::size_t scratch_bytes_from(C const& c, E const& exec, shape const& dims) {
  if constexpr (requires { c.template scratch_bytes_from<In, E, Source>(exec, dims); }) {
    return c.template scratch_bytes_from<In, E, Source>(exec, dims);
  } else {
    return scratch_bytes<In>(c, exec, dims);
  }
}

template <class In, class C, class E, class Source, class Replicated, class Local>
void encode_from(C const& c, context<In, E> const& cx, Source const& from, span_on<E, std::byte> payload,
                 [[maybe_unused]] Replicated const& replicated, [[maybe_unused]] Local& local) {
  auto const scope = cx.ws.mark();
  if constexpr (has_payload<C, In, E>) {
    c.encode_from(cx, from, payload, replicated, local);
  } else {
    c.encode_from(cx, from, cleared_sections<In>(c, cx, payload));
  }
}

template <class In, class C, class E, class Replicated>
void decode_payload(C const& c, context<In, E> const& cx, span_on<E, std::byte const> payload, values_on<E, In> x,
                    Replicated const& replicated) {
  if constexpr (has_payload<C, In, E>) {
    auto const scope = cx.ws.mark();
    c.decode_payload(cx, payload, x, replicated);
  } else {
    decode<In>(c, cx, output_in<In>(c, cx, payload), x, replicated);
  }
}

/// A codec that decodes and sums the payloads of all ranks in one pass. A stage reads outputs; a codec that is not a
/// stage reads payloads. A chain satisfies the concept if its last stage satisfies adds_ranks (below), and if its other
/// stages are linear and equal on all ranks.
template <class C, class In, class E>
concept decodes_ranks =
    (!has_payload<C, In, E> &&
     requires(C const& c, context<In, E> const& cx, gathered_on<E, output_of<C, In>> in, accum<In> factor,
              values_on<E, In> x) {
       { c.decode_ranks(cx, in, factor, x) } -> std::same_as<void>;
     }) ||
    (has_payload<C, In, E> &&
     requires(C const& c, context<In, E> const& cx, received_on<E> in, accum<In> factor, values_on<E, In> x,
              replicated_of<C, In, E> const& replicated) {
       { c.decode_ranks(cx, in, factor, x, replicated) } -> std::same_as<void>;
     });

/// True if decode_ranks may be called for this codec.
template <class In, class E, class C>
bool can_decode_ranks([[maybe_unused]] C const& c) {
  if constexpr (decodes_ranks<C, In, E>) {
    return c.can_decode_ranks();
  } else {
    return false;
  }
}

/// Sets x to `factor` times the sum of all ranks' decoded payloads, added in rank order.
template <class In, class C, class E, class Replicated>
void decode_ranks(C const& c, context<In, E> const& cx, received_on<E> in, accum<In> factor, values_on<E, In> x,
                  [[maybe_unused]] Replicated const& replicated) {
  if constexpr (has_payload<C, In, E>) {
    c.decode_ranks(cx, in, factor, x, replicated);
  } else {
    auto const y = output_in<In>(c, cx, in.bytes);
    c.decode_ranks(cx, gathered_on<E, output_of<C, In>>{y, in.stride, cx.ranks}, factor, x);
  }
}

/// A stage whose decode_ranks returns a sum, not a majority vote. Earlier stages of a chain can decode sums, not votes.
template <class C, class In, class E>
concept adds_ranks = decodes_ranks<C, In, E> && !traits_of<C>.votes;

/// True if there is a rate at which the codec is lossy for this shape. Such a codec needs a residual.
template <class C>
constexpr bool may_be_lossy(C const& c, shape const& dims) {
  if constexpr (requires {
                  { c.may_be_lossy(dims) } -> std::same_as<bool>;
                }) {
    return c.may_be_lossy(dims);
  } else {
    return has_rate(c) || !c.is_lossless(dims);
  }
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
