// pith/codec/facets.hpp — the facets of a codec: what it can do besides encoding and decoding.
#pragma once

#include <pith/config.hpp>

#include <concepts>
#include <type_traits>

namespace pith::inline PITH_ABI {

namespace ext {

/// The facets of a codec, which its author declares in one line:
///
///     using facets = pith::ext::facets<pith::ext::contractive, pith::ext::sum>;
///
/// A facet is a group of optional members. The program does not compile if a member of a declared facet is missing or
/// does not fit, or if a codec has a member of a facet that it does not declare. The error states the member's
/// signature.
template <class... F>
struct facets {};

/// In place of a list: the facets follow from the codecs that this codec wraps, and are not checked.
struct computed {};

/// In a list: this class template lacks the facet for its arguments, though its members have the facet's names.
template <class F>
struct no {};
template <bool Has, class F>
using facet_if = std::conditional_t<Has, F, no<F>>;

struct unbiased {};       ///< omega: E D(C(x)) = x, and E|D(C(x)) - x|^2 <= omega |x|^2
struct contractive {};    ///< delta: E|D(C(x)) - x|^2 <= (1 - delta) |x|^2
struct bounded {};        ///< error_bound: |D(C(x)) - x| <= error_bound for each element
struct rate {};           ///< at: the codec at another rate, which controllers choose
struct source {};         ///< encode_from: error feedback adds the residual in the pass that encodes
struct sum {};            ///< decode_sum: one pass decodes and adds the payloads of all ranks
struct entries {};        ///< most_entries, decode_entries: a sum of sparse payloads reads only their entries
struct used {};           ///< used_values, used_side_bytes: `compact` removes the unused bytes of a payload
struct parts {};          ///< granule: a tensor's parts, one per rank, begin at multiples of this number of elements
struct share {};          ///< contribution: a collective computes a rank's own share from the buffer that it produced
struct costly_share {};   ///< own_contribution: as contribution, at additional cost
struct delivered {};      ///< delivered: a collective computes a rank's own share after the last round
struct source_rounds {};  ///< produce_from, absorb_to: the rounds read the old residual and write the next one

}  // namespace ext

namespace detail {

template <class List, class F>
inline constexpr bool lists = false;
template <class... Each, class F>
inline constexpr bool lists<ext::facets<Each...>, F> = (std::same_as<Each, F> || ...);

template <class C>
concept has_facets = requires {
  typename C::facets;
};
/// The base class of a codec may implement facets. It declares them as engine_facets, and the codec declares only its
/// own facets.
template <class C>
concept has_engine_facets = requires {
  typename C::engine_facets;
};

/// True if C declares the facet F.
template <class C, class F>
inline constexpr bool declares = false;
template <class C, class F>
  requires(has_facets<C> || has_engine_facets<C>)
inline constexpr bool declares<C, F> = [] {
  auto found = false;
  if constexpr (has_facets<C>) found = lists<typename C::facets, F>;
  if constexpr (has_engine_facets<C>) found = found || lists<typename C::engine_facets, F>;
  return found;
}();
/// True if C declares the facet F, or declares that it lacks the facet F.
template <class C, class F>
inline constexpr bool mentions = declares<C, F> || declares<C, ext::no<F>>;

template <class C>
inline constexpr bool has_computed_facets = false;
template <has_facets C>
inline constexpr bool has_computed_facets<C> = std::same_as<typename C::facets, ext::computed>;

}  // namespace detail
}  // namespace pith::inline PITH_ABI
