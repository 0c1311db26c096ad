// pith/codec/explain.hpp — compile-time explanations: why a type is not a stage, which facet does not fit.
#pragma once

#include <pith/codec/detail/facet_check.hpp>
#include <pith/codec/rounds.hpp>
#include <pith/codec/stage.hpp>

#include <concepts>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// True if stage B accepts the values that stage A emits.
template <class A, class B, class In = float, class E = archetype>
concept composable = stage<A, In, E> && stage<B, output_of<A, In>, E>;

}  // namespace detail

/// Fails to compile if the facets of codec `C` do not fit its members. The message states the right signature.
template <class C, class In = float, class E = archetype>
constexpr void explain_facets() {
  if constexpr (real<In> && !detail::has_computed_facets<C>) {
    if constexpr (detail::exchangeable<C, accum<In>, E>) static_cast<void>(detail::facet_check<C, accum<In>, E>());
  }
}

namespace detail {

/// Throws if a codec inside another codec is flat.
template <class C>
void require_inner([[maybe_unused]] C const& c) {
  if constexpr (requires {
                  { c.is_flat() } -> std::same_as<bool>;
                }) {
    require(!c.is_flat(), "flat(c) must contain all other codecs, got ", c.name(), " inside another codec");
  }
}

}  // namespace detail

/// Fails to compile if `S` is not a stage. The message names the first requirement that `S` does not meet.
template <class S, class In = float, class E = archetype>
constexpr void explain_stage() {
  static_assert(std::derived_from<S, codec_base>, "pith: a stage must derive from pith::codec_base");
  static_assert(!traits_of<S>.terminal,
                "pith: this codec ends a pipeline: put it around the whole chain, error_feedback(a | b), not "
                "error_feedback(a) | b");
  static_assert(detail::has_output<S, In>,
                "pith: a stage must declare template <class In> using output = what it emits");
  static_assert(detail::has_name<S>, "pith: a stage must have std::string name() const");
  if constexpr (detail::has_output<S, In>) {
    static_assert(
        detail::encodes<S, In, E>,
        "pith: a stage must have void encode(context<In, E> const&, value_view<In const>, encoded<Out>[, replicated "
        "const&, local&]) const; states only if it has make_replicated or make_local");
    static_assert(detail::decodes<S, In, E>,
                  "pith: a stage must have void decode(context<In, E> const&, encoded<Out const>, value_view<In>[, "
                  "replicated const&]) const");
  }
  explain_facets<S, In, E>();
}

/// Fails to compile if executor `E` does not work on memory of `Space`.
template <class E, class Space>
constexpr void explain_space() {
  static_assert(
      std::same_as<Space, space_of<E>>,
      "pith: this span lies in another memory space than the executor's: a device_span needs a device executor, "
      "on(stream)");
}

}}  // namespace pith::PITH_ABI
