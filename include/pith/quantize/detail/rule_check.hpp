// pith/quantize/detail/rule_check.hpp — the check that the facets of a quantizer rule fit its members.
#pragma once

#include <pith/core/facets.hpp>
#include <pith/quantize/detail/best_scales.hpp>
#include <pith/quantize/quantizer_rule.hpp>

#include <concepts>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The names of all members of a rule's facets.
struct rule_members {
  int with_terms, refine, scaled, candidate, members, tensor_scale;
};

struct takes_any_terms {
  template <class Terms>
  PITH_HD void operator()(Terms const&) const {}
};
template <class R>
concept selects_terms = requires(R const& r) {
  r.with_terms(takes_any_terms());
};

template <class R, class A>
concept refines = requires(R const& r, scale_of<R, A> scale) {
  r.refine(scale);
};

template <class R, class A>
concept offers_candidates = has_candidates<R> && requires(R const& r, scale_of<R, A> scale) {
  { r.candidate(scale, 0u) } -> std::same_as<scale_of<R, A>>;
};

/// Fails to compile if the facets of a quantizer rule do not fit its members.
template <class C, class A>
struct rule_check {
  PITH_CHECK_FACET(
      "rule", rule_members, chosen_terms, with_terms, selects_terms<C>,
      "template <class F> PITH_HD void with_terms(F const& f) const, which calls f with an object with the "
      "functions `measure` and `merge`");
  PITH_CHECK_FACET("rule", rule_members, refined, refine, (refines<C, A>),
                   "template <class A> PITH_HD Refined refine(Scale) const");
  PITH_CHECK_FACET("rule", rule_members, scaled, scaled, (scalable<C, A>),
                   "template <class A> PITH_HD Scaled scaled(Scale, A power) const, with value(symbol, Scaled)");
  PITH_CHECK_FACET("rule", rule_members, candidates, candidate, (offers_candidates<C, A>),
                   "template <class A> PITH_HD Scale candidate(Scale, unsigned) const, static constexpr unsigned "
                   "candidates, bool chooses");
  PITH_CHECK_FACET("rule", rule_members, tensor, tensor_scale, has_tensor_scale<C>,
                   "template <class A> PITH_HD A tensor_scale(double largest, A) const, void const* tensor");
  PITH_CHECK_FACET("rule", rule_members, members, members, (member_count<C> > 0),
                   "static constexpr double Statistic::*members[]");
};

}}}  // namespace pith::PITH_ABI::detail
