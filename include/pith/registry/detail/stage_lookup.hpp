// pith/registry/detail/stage_lookup.hpp — the stage that a term names, or an error that lists all valid names.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/registry/detail/near_miss.hpp>
#include <pith/registry/method.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The type that f returns for a stage.
template <class F>
using made_by = decltype(std::declval<F const&>()(identity()));

/// The wrappers of codecs, ef and bypass. The parser itself constructs them.
inline constexpr auto wrapper_listings = std::array{
    listing{"ef(c)",
            "error feedback: adds the residual to the next gradient",
            {"ef(scaled_sign)", "ef(top_k(0.2)|qsgd<8>)", "ef(qsgd<4>,residual(0.9,1))", "ef(sign,unverified)"}},
    listing{"bypass(c,n)",
            "tensors of fewer than 1,024 elements uncompressed; bypass(c, n): of fewer than n",
            {"bypass(top_k(0.01),1024)", "bypass(ef(scaled_sign),64)"}}};

/// Returns the descriptions of the wrappers, followed by those of `others`.
template <std::size_t N>
constexpr std::array<listing, wrapper_listings.size() + N> with_wrappers(std::array<listing, N> const& others) {
  auto all = std::array<listing, wrapper_listings.size() + N>();
  std::copy(others.begin(), others.end(), std::copy(wrapper_listings.begin(), wrapper_listings.end(), all.begin()));
  return all;
}

template <class Stages, class Exchanges>
[[noreturn]] PITH_NOINLINE void throw_no_stage(syntax::term const& t, Stages const& stages,
                                               Exchanges const& exchanges) {
  throw std::invalid_argument(sentence("parse: \"", t.text, "\" is not a stage", proposal(t.name, stages, exchanges),
                                       " Stages are ", listed(stages),
                                       ". These wrap a whole chain or stand alone: ", listed(exchanges)));
}

/// Calls f with the stage that a term names, among the first `Until` methods. If no method has the name, throws an
/// error that lists `stages` and `exchanges`.
template <std::size_t Until, class Methods, class F, class Stages, class Exchanges>
made_by<F> with_stage_among(Methods const& methods, syntax::term const& t, F const& f, Stages const& stages,
                            Exchanges const& exchanges) {
  return with_method<made_by<F>, Until>(
      methods, t, [&](auto const& one) -> made_by<F> { return one.make(t, f); },
      [&]() -> made_by<F> { throw_no_stage(t, stages, exchanges); });
}

}}}  // namespace pith::PITH_ABI::detail
