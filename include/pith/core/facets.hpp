// pith/core/facets.hpp — facets: the optional members of codecs and rules, which their authors declare.
#pragma once

#include <pith/config.hpp>

#include <concepts>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace ext {

/// The facets of a class, which its author declares in one line:
///
///     using facets = pith::ext::facets<pith::ext::contractive, pith::ext::ranks>;
///
/// A facet is a group of optional members. The program does not compile if a member of a declared facet is missing or
/// does not fit, or if the class has a member of a facet that it does not declare. The error states the member's
/// signature.
template <class... F>
struct facets {};

/// In place of a list: the facets follow from the classes that this class wraps, and are not checked.
struct computed {};

/// In a list: this class template lacks the facet for its arguments, though its members have the facet's names.
template <class F>
struct no {};
template <bool Has, class F>
using facet_if = std::conditional_t<Has, F, no<F>>;

/// The facets of a base class, and more: `using facets = pith::ext::extended<base::facets, pith::ext::ranks>`.
template <class List, class... More>
struct extend;
template <class... Each, class... More>
struct extend<facets<Each...>, More...> {
  using type = facets<Each..., More...>;
};
template <class List, class... More>
using extended = typename extend<List, More...>::type;

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
/// A base class may implement facets. It declares them as engine_facets, and the derived class declares only its own
/// facets.
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

/// A class with the members of C and the members of `Names`. A name that both have is ambiguous here, whatever its kind
/// and signature. No class can derive from a final class, so there the check finds only members that fit.
template <class C, class Names, bool IsFinal = std::is_final_v<C>>
struct named : C, Names {};
template <class C, class Names>
struct named<C, Names, true> : Names {};

/// Checks a member of a class C: it fits if its facet is declared, and it is absent otherwise. NAMES is a class with the
/// names of all members of facets of this KIND of class.
#define PITH_CHECK_FACET(KIND, NAMES, FACET, MEMBER, FITS, SIGNATURE)                                         \
  static_assert(!declares<C, ext::FACET> || (FITS), "pith: the facet ext::" #FACET " needs: " SIGNATURE);     \
  static_assert(                                                                                              \
      mentions<C, ext::FACET> || (requires { &named<C, NAMES>::MEMBER; } && !(std::is_final_v<C> && (FITS))), \
      "pith: a " KIND " with the member " #MEMBER                                                             \
      " must declare its facet: using facets = pith::ext::facets<pith::ext::" #FACET ">; the member is: " SIGNATURE)

/// Checks a member without a facet: it fits, or it is absent.
#define PITH_CHECK_MEMBER(KIND, NAMES, MEMBER, FITS, SIGNATURE)   \
  static_assert((FITS) || requires { &named<C, NAMES>::MEMBER; }, \
                "pith: the member " #MEMBER " of a " KIND " must be: " SIGNATURE)

}  // namespace detail
}}  // namespace pith::PITH_ABI
