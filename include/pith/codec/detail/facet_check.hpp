// pith/codec/detail/facet_check.hpp — the check that the facets of a codec fit its members.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/detail/entries.hpp>
#include <pith/codec/detail/own_share.hpp>
#include <pith/codec/facets.hpp>
#include <pith/codec/measured.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/core/source.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

template <class C>
concept limits_values = requires(C const& c, shape const& dims, std::uint64_t count) {
  { c.used_values(dims, count) } -> std::same_as<std::uint64_t>;
};
template <class C>
concept limits_side = requires(C const& c, shape const& dims, std::uint64_t count) {
  { c.used_side_bytes(dims, count) } -> std::same_as<std::size_t>;
};
template <class C>
concept has_granule = requires(C const& c) {
  { c.granule() } -> std::same_as<std::uint64_t>;
};
template <class C, class In, class E>
concept takes_other_scratch = requires(C const& c, E const& exec, shape const& dims) {
  { c.template scratch_bytes_from<In, E, ext::residual_source<In>>(exec, dims) } -> std::same_as<std::size_t>;
};
template <class C>
concept contributes_early = requires(C const& c) {
  { c.contributing_round(2u) } -> std::same_as<unsigned>;
};

/// The names of all members of facets.
struct facet_members {
  int omega, delta, error_bound, at, encode_from, decode_ranks, max_entries, decode_entries, used_values,
      used_side_bytes, granule, contribution, own_contribution, delivered, round, exchange_scratch_bytes, produce,
      absorb, produce_from, absorb_to, scratch_bytes_from, encode_measured, measured_scratch_bytes, contributing_round,
      make_replicated, make_local;
};

/// Fails to compile if the facets of a codec do not fit its members.
#define PITH_FACET(FACET, MEMBER, FITS, SIGNATURE) \
  PITH_CHECK_FACET("codec", facet_members, FACET, MEMBER, FITS, SIGNATURE)

template <class C, class In, class E>
struct facet_check {
  PITH_FACET(unbiased, omega, has_omega<C>, "double omega(shape const&) const");
  PITH_FACET(contractive, delta, has_delta<C>, "double delta(shape const&) const");
  PITH_FACET(bounded, error_bound, has_error_bound<C>, "double error_bound(shape const&) const");
  PITH_FACET(rate, at, rate_adjustable<C>, "C at(double rate) const, where C is the codec's type");
  PITH_FACET(source, encode_from, (reads_source<C, In, E, ext::residual_source<In>>),
             "template <real In, executor E, class Source> void encode_from(context<In, E> const&, Source const&, "
             "encoded_on<E, Out>) const; in a codec that is not a stage, the last arguments are span_on<E, std::byte> "
             "payload, replicated const&, local&");
  PITH_FACET(
      source_scratch, scratch_bytes_from, (takes_other_scratch<C, In, E>),
      "template <class In, executor E, class Source> std::size_t scratch_bytes_from(E const&, shape const&) const");
  PITH_FACET(measured, encode_measured, (measures_from<C, In, E, ext::plain_source<In>>),
             "template <real In, executor E, class Source> void encode_measured(context<In, E> const&, Source const&, "
             "rate_list const&, span_on<E, std::byte> payload, double* energies) const");
  PITH_FACET(measured, measured_scratch_bytes, (measures_from<C, In, E, ext::plain_source<In>>),
             "template <class In, executor E, class Source> std::size_t measured_scratch_bytes(E const&, shape const&, "
             "rate_list const&, bool sends) const");
  PITH_FACET(
      ranks, decode_ranks, (decodes_ranks<C, In, E>),
      "template <real In, executor E> void decode_ranks(context<In, E> const&, gathered_on<E, Out>, accum<In> "
      "factor, values_on<E, In>) const; in a codec that is not a stage, the second argument is received_on<E>, and "
      "the last one is replicated const&");
  PITH_FACET(entries, max_entries, counts_entries<C>, "std::uint64_t max_entries(shape const&) const");
  PITH_FACET(entries, decode_entries, (lists_entries<C, In, E>),
             "template <real In, executor E> void decode_entries(context<In, E> const&, encoded_on<E, Out const>, "
             "ext::selected_entries<In> const&) const; in a codec that is not a stage, the second argument is "
             "span_on<E, std::byte const>, and the last one is replicated const&");
  PITH_FACET(used, used_values, limits_values<C>, "std::uint64_t used_values(shape const&, std::uint64_t count) const");
  PITH_FACET(used, used_side_bytes, limits_side<C>,
             "std::size_t used_side_bytes(shape const&, std::uint64_t count) const");
  PITH_FACET(parts, granule, has_granule<C>, "std::uint64_t granule() const");
  PITH_FACET(share, contribution, (collective<C, In, E> && has_contribution<C, In, E>),
             "template <real In, executor E> void contribution(context<In, E> const&, span_on<E, std::byte const> "
             "produced, values_on<E, In> sent, replicated const&) const");
  PITH_FACET(costly_share, own_contribution, (collective<C, In, E> && reports_contribution<C, In, E>),
             "template <real In, executor E> void own_contribution(context<In, E> const&, span_on<E, std::byte const> "
             "produced, values_on<E, In> sent, replicated const&) const");
  PITH_FACET(early_share, contributing_round, contributes_early<C>,
             "unsigned contributing_round(unsigned ranks) const");
  PITH_FACET(delivered, delivered, (reports_delivered<C, In, E>),
             "template <real In, executor E> void delivered(context<In, E> const&, values_on<E, In const> p, "
             "values_on<E, In const> mean, values_on<E, In> sent, replicated const&, local const&) const");
  PITH_FACET(rounds, round, (collective<C, In, E>),
             "template <class In> transfer round(unsigned, shape const&, unsigned ranks) const, and the members "
             "exchange_scratch_bytes, produce and absorb");
  PITH_FACET(rounds, exchange_scratch_bytes, (collective<C, In, E>),
             "template <class In, executor E> std::size_t exchange_scratch_bytes(E const&, shape const&, unsigned "
             "ranks) const");
  PITH_FACET(rounds, produce, (collective<C, In, E>),
             "template <real In, executor E> void produce(context<In, E> const&, unsigned round, values_on<E, In "
             "const>, span_on<E, std::byte> out, replicated const&, local&) const");
  PITH_FACET(rounds, absorb, (collective<C, In, E>),
             "template <real In, executor E> void absorb(context<In, E> const&, unsigned round, received_on<E> in, "
             "values_on<E, In>, replicated&, local&) const");
  PITH_FACET(source_rounds, produce_from, (exchanges_from<C, In, E, ext::residual_source<In>, ext::tensor_sink<In>>),
             "template <real In, executor E, class Source> void produce_from(context<In, E> const&, unsigned round, "
             "Source const&, span_on<E, std::byte>, replicated const&) const");
  PITH_FACET(source_rounds, absorb_to, (exchanges_from<C, In, E, ext::residual_source<In>, ext::tensor_sink<In>>),
             "template <real In, executor E, class Sink> void absorb_to(context<In, E> const&, received_on<E>, Sink "
             "const&, replicated&) const");
  PITH_CHECK_MEMBER(
      "codec", facet_members, make_replicated, (has_replicated<C, In, E>),
      "template <real In, executor E> State make_replicated(E const&, encoding_id const&, shape const&) const");
  PITH_CHECK_MEMBER("codec", facet_members, make_local, (has_local<C, In, E>),
                    "template <real In, executor E> State make_local(E const&, shape const&) const");
};

#undef PITH_FACET

}}}  // namespace pith::PITH_ABI::detail
