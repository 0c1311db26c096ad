// pith/collective/tensor_parts.hpp — the division of a tensor into equal parts, each encoded as a separate tensor.
#pragma once

#include <pith/codec/codec.hpp>
#include <pith/codec/detail/decoded_mean.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/detail/pack.hpp>
#include <pith/core/draws.hpp>
#include <pith/core/error.hpp>
#include <pith/core/shape.hpp>
#include <pith/core/workspace.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The smallest multiple of `granule` that is at least n / ranks. If this multiple is larger than n, returns n, rounded
/// up to a multiple of 8.
constexpr std::uint64_t part_size(std::uint64_t n, unsigned ranks, std::uint64_t granule) {
  if (ranks == 0 || granule == 0) {
    throw std::invalid_argument(
        sentence("tensor_parts: ranks and granule must be at least 1, got ", ranks, " and ", granule));
  }
  auto const whole = std::max(n, align_up(n, octet));
  if (granule >= whole) return whole;
  return std::min(whole, align_up(n / ranks + (n % ranks != 0), granule));
}

}  // namespace detail

/// The division of a tensor of n elements into parts, one per rank. Part r begins at element r x size, where `size` is
/// the smallest multiple of `granule` that is at least n / ranks, but at most the smallest multiple of 8 that is at
/// least n. The last parts may be short or empty. With a granule of at least n, the first part is the whole tensor.
struct tensor_parts {
  std::uint64_t n, size;

  constexpr tensor_parts(std::uint64_t elements, unsigned ranks, std::uint64_t granule)
      : n(elements), size(detail::part_size(elements, ranks, granule)) {}

  constexpr std::uint64_t first(unsigned rank) const { return std::min(n, rank * size); }
  constexpr shape dims(unsigned rank) const { return {std::min(size, n - first(rank))}; }
  constexpr shape largest() const { return {size}; }
  /// The shape of the part that has fewer than `size` elements but is not empty. If there is no such part, the shape
  /// has 0 elements.
  constexpr shape remainder() const { return {size == 0 ? 0 : n % size}; }
  /// The position of a part in the tensor's random bits.
  constexpr std::uint64_t first_draw(unsigned rank) const { return first(rank); }

  /// The largest result of f for the shape of a part. The short part may have the largest payload, since the codec
  /// `bypass` does not compress short tensors.
  template <class F>
  auto most(F const& f) const {
    return std::max(f(largest()), f(remainder()));
  }
};

namespace detail {

/// Each part of a tensor must begin at a multiple of this number of elements, the codec's granule. It is at least 8,
/// since 8 elements share a block of random bits. A quantizer has no other granule: its buckets begin with the part.
template <class C>
std::uint64_t part_granule(C const& c) {
  if constexpr (requires { c.granule(); }) return std::max<std::uint64_t>(c.granule(), octet);
  return octet;
}

/// Returns the least common multiple of a and b. If it is 2^64 or more, returns the largest multiple of 8 below 2^64,
/// with which a tensor has one part.
constexpr std::uint64_t common_granule(std::uint64_t a, std::uint64_t b) {
  constexpr auto most = ~std::uint64_t{0} / octet * octet;
  auto const times = b / std::gcd(a, b);
  return a > most / times ? most : a * times;
}

/// The common granule of several codecs.
template <class... C>
std::uint64_t granule_for(C const&... codecs) {
  std::uint64_t granule = octet;
  ((granule = common_granule(granule, part_granule(codecs))), ...);
  return granule;
}

}  // namespace detail

/// The parts of a tensor for these codecs. Each part begins at a multiple of every codec's granule.
template <class... C>
tensor_parts parts_for(std::uint64_t n, unsigned ranks, C const&... codecs) {
  return {n, ranks, detail::granule_for(codecs...)};
}

namespace detail {

/// Returns the id for encoding the part that begins at element `first` of a tensor, given the tensor's `id`. The tensor
/// may itself be a part of a larger tensor.
inline encoding_id id_at(encoding_id id, std::uint64_t first) {
  id.first += first;
  return id;
}
/// The id for encoding the mean, which is the second encoding of a part.
inline encoding_id mean_id_at(encoding_id id, std::uint64_t first) {
  ++id.hop;
  return id_at(id, first);
}

/// The largest payload size over all parts: those of tensor_parts or tensor_shards.
template <class In, class C, class Parts>
std::size_t part_bytes(C const& c, Parts const& over) {
  return align_up(over.most([&](shape const& part) { return pith::payload_bytes<In>(c, part); }), section_alignment);
}

/// `part_of` returns the context in which a part is encoded. `mean_part_of` returns the context in which the mean of a
/// part is encoded.
template <class In, class E, class Parts>
context<In, E> part_of(context<In, E> const& cx, Parts const& over, unsigned part) {
  return cx.with(id_at(cx.id, over.first_draw(part)), over.dims(part));
}
template <class In, class E, class Parts>
context<In, E> mean_part_of(context<In, E> const& cx, Parts const& over, unsigned part) {
  return cx.with(mean_id_at(cx.id, over.first_draw(part)), over.dims(part));
}

/// Calls f(part's context, part's first element, payload) for each part. The payload lies in the piece of `out` for the
/// part's rank.
template <class In, class C, class E, class Parts, class F>
void for_each_part(C const& c, context<In, E> const& cx, Parts const& over, span_on<E, std::byte> out, F const& f) {
  auto const size = out.size() / cx.ranks;
  for (unsigned rank = 0; rank < cx.ranks; ++rank) {
    auto const piece = out.subspan(rank * size, size);
    auto const used = piece.first(pith::payload_bytes<In>(c, over.dims(rank)));
    clear_padding<E>(cx.exec, piece, used.size());
    f(part_of(cx, over, rank), over.first(rank), used);
  }
}
/// Encodes each part of x into the piece of `out` for the part's rank.
template <class In, class C, class E, class Parts, class Replicated, class Local>
void encode_parts(C const& c, context<In, E> const& cx, Parts const& over, values_on<E, In const> x,
                  span_on<E, std::byte> out, Replicated const& replicated, Local& local) {
  for_each_part(c, cx, over, out, [&](auto const& part, std::uint64_t first, auto const& payload) {
    encode_payload<In>(c, part, {x.data + first, part.dims.n}, payload, replicated, local);
  });
}
/// As encode_parts, for the tensor of a source.
template <class In, class C, class E, class Parts, class Source, class Replicated, class Local>
void encode_parts_from(C const& c, context<In, E> const& cx, Parts const& over, Source const& from,
                       span_on<E, std::byte> out, Replicated const& replicated, Local& local) {
  for_each_part(c, cx, over, out, [&](auto const& part, std::uint64_t first, auto const& payload) {
    encode_from<In>(c, part, from.tail(first), payload, replicated, local);
  });
}

/// Decodes the output of this rank's `encode_parts` into x.
template <class In, class C, class E, class Parts, class Replicated>
void decode_own_parts(C const& c, context<In, E> const& cx, Parts const& over, span_on<E, std::byte const> produced,
                      values_on<E, In> x, Replicated const& replicated) {
  for (unsigned rank = 0; rank < cx.ranks; ++rank) {
    auto const part = over.dims(rank);
    auto const payload = produced.subspan(rank * (produced.size() / cx.ranks), pith::payload_bytes<In>(c, part));
    decode_payload<In>(c, part_of(cx, over, rank), payload, {x.data + over.first(rank), part.n}, replicated);
  }
}

/// Decodes this rank's part of every rank's gradient, and computes the mean of these parts.
template <class In, class C, class E, class Parts, class Replicated>
void decode_part_mean(C const& c, context<In, E> const& cx, Parts const& over, received_on<E> in, values_on<E, In> mean,
                      Replicated const& replicated) {
  decode_mean<In>(c, part_of(cx, over, cx.id.rank), in, mean, replicated);
}
template <class In, class C, class E, class Parts>
std::size_t part_mean_scratch_bytes(C const& c, E const& exec, Parts const& over, unsigned ranks) {
  // A short part may need the most scratch, since all ranks together may have more entries than the part has elements.
  return over.most([&](shape const& part) { return mean_scratch_bytes<In>(c, exec, part, ranks); });
}

/// Encodes the mean of this rank's part. The mean lies in the first elements of x.
template <class In, class C, class E, class Parts, class Replicated, class Local>
void encode_mean_part(C const& c, context<In, E> const& cx, Parts const& over, values_on<E, In const> x,
                      span_on<E, std::byte> out, Replicated const& replicated, Local& local) {
  auto const own = mean_part_of(cx, over, cx.id.rank);
  auto const used = out.first(pith::payload_bytes<In>(c, own.dims));
  clear_padding<E>(cx.exec, out, used.size());
  encode_payload<In>(c, own, {x.data, own.dims.n}, used, replicated, local);
}

/// Decodes the means of all parts into x. `in` has one mean from each rank.
template <class In, class C, class E, class Parts, class Replicated>
void decode_parts(C const& c, context<In, E> const& cx, Parts const& over, received_on<E> in, values_on<E, In> x,
                  Replicated const& replicated) {
  for (unsigned rank = 0; rank < cx.ranks; ++rank) {
    auto const part = over.dims(rank);
    decode_payload<In>(c, mean_part_of(cx, over, rank).from_rank(rank), in.from(rank, pith::payload_bytes<In>(c, part)),
                       {x.data + over.first(rank), part.n}, replicated);
  }
}

/// Throws std::invalid_argument unless the codec's state for a whole tensor is empty.
template <class C>
void require_no_state(char const* exchange, C const& codec, auto& state) {
  require(state_bytes(state) == 0, exchange, ": codec must have no state, got ", codec.name(),
          ": for gradients, put feedback around the exchange, ef(", exchange, "(c, ...))");
}

/// Throws std::invalid_argument if the parts do not begin at multiples of the codec's granule, if the parts are for
/// another number of ranks, or if the state is of another rank.
template <class C>
void require_parts(char const* verb, C const& codec, tensor_parts const& over, encoding_id const& id, unsigned rank,
                   unsigned ranks) {
  if (over.size < over.n && over.size % part_granule(codec) != 0) {
    throw std::invalid_argument(sentence(verb, ": the size of a part must be a multiple of ", part_granule(codec),
                                         " for ", codec.name(), ", got ", over.size,
                                         ": use parts_for(n, ranks, codec)"));
  }
  require(over.first(ranks) == over.n, verb, ": parts of ", ranks, " ranks must cover ", over.n, " elements, got ",
          over.first(ranks), ": use parts_for(n, ranks, codec)");
  require(id.rank == rank, verb, ": the state's rank must be ", rank, ", got ", id.rank,
          ": pass the communicator's rank to make_state");
}

}  // namespace detail
}}  // namespace pith::PITH_ABI
