// pith/feedback/detail/policy_check.hpp — the check that the facets of a feedback policy fit its members.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/core/facets.hpp>
#include <pith/feedback/detail/feedback_way.hpp>
#include <pith/feedback/feedback.hpp>

#include <concepts>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The names of all members of a policy's facets.
struct policy_members {
  int source, after_exchange, add_unsent, residual_in, unit, changes_gradients, scratch_bytes, make_replicated,
      make_local, updates_on;
};

template <class F, class In, class E>
concept has_residual_in = requires(F const& f, local_of<F, In, E>& local) {
  residual_view<accum<In>>(f.residual_in(local));
};
template <class F, class In, class E>
concept is_fused = has_sources<F, In, E> && requires(F const& f) {
  { f.has_source() } -> std::same_as<bool>;
};
template <class F>
concept may_change_gradients = requires(F const& f) {
  { f.changes_gradients() } -> std::same_as<bool>;
};
template <class F>
concept has_unit = requires(F const& f) {
  { f.unit() } -> std::same_as<double>;
};
template <class F, class In, class E>
concept takes_scratch = requires(F const& f, E const& exec, shape const& dims) {
  { f.template scratch_bytes<In>(exec, dims) } -> std::same_as<std::size_t>;
};

/// Fails to compile if the facets of a feedback policy do not fit its members.
#define PITH_FACET(FACET, MEMBER, FITS, SIGNATURE) \
  PITH_CHECK_FACET("feedback policy", policy_members, FACET, MEMBER, FITS, SIGNATURE)

template <class C, class E = archetype>
struct policy_check {
  PITH_FACET(fused, source, (is_fused<C, float, E>),
             "template <real In, executor E> auto source(values_on<E, In const> g, local&) const, a source such as "
             "ext::residual_source<In>, and bool has_source() const");
  PITH_FACET(after_mean, after_exchange, (has_after_exchange<C, float, E>),
             "template <real In, executor E> void after_exchange(context<In, E> const&, values_on<E, accum<In>> mean, "
             "replicated&, local&) const");
  PITH_FACET(unsent, add_unsent, (adds_unsent<C, bfloat16, E>),
             "template <real In, executor E> void add_unsent(context<In, E> const&, values_on<E, accum<In>> unsent, "
             "local&) const");
  PITH_FACET(kept_residual, residual_in, (has_residual_in<C, float, E>),
             "buffer<accum<In>, E>& residual_in(local&) const, or a buffer of bfloat16");
  PITH_FACET(divided, unit, has_unit<C>, "double unit() const");
  PITH_FACET(momentum, changes_gradients, may_change_gradients<C>, "bool changes_gradients() const");
  static_assert(
      requires { &named<C, policy_members>::updates_on; },
      "pith: a feedback policy declares updates_on as a facet: pith::ext::updates_on<pith::feedback_on::own>");
  PITH_FACET(scratch, scratch_bytes, (takes_scratch<C, float, E>),
             "template <real In, executor E> std::size_t scratch_bytes(E const&, shape const&) const");
  PITH_CHECK_MEMBER(
      "feedback policy", policy_members, make_replicated, (has_replicated<C, float, E>),
      "template <real In, executor E> State make_replicated(E const&, encoding_id const&, shape const&) const");
  PITH_CHECK_MEMBER("feedback policy", policy_members, make_local, (has_local<C, float, E>),
                    "template <real In, executor E> State make_local(E const&, shape const&) const");
};

#undef PITH_FACET

template <class F>
constexpr void explain_policy() {
  if constexpr (!erased_feedback<F> && !has_computed_facets<F>) static_cast<void>(policy_check<F>());
}

}}}  // namespace pith::PITH_ABI::detail
