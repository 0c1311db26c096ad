// pith/feedback/feedback.hpp — the concept of a feedback policy: compensate, update, after_exchange, rescale.
#pragma once

#include <pith/codec/detail/feedback_places.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/facets.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// Selects the decoded values that `update` receives. A rank's own share is the decoded value of its own payload,
/// scaled so that the mean of all ranks' shares is the decoded mean.
enum class feedback_on : std::uint8_t {
  first_known,  ///< the rank's own share if it is available before the exchange ends, else the mean
  own,          ///< the rank's own share
  mean,         ///< the mean
};

namespace ext {

struct fused {};          ///< source, has_source
struct after_mean {};     ///< after_exchange
struct unsent {};         ///< add_unsent
struct kept_residual {};  ///< residual_in
struct divided {};        ///< unit
struct momentum {};       ///< changes_gradients
struct scratch {};        ///< scratch_bytes
struct memoryless {};     ///< the policy does not store the compression error
struct no_debt {};        ///< the states contain no part of a gradient that is still to be delivered
/// `update` receives these values. The default is feedback_on::first_known.
template <feedback_on On>
struct updates_on {};

}  // namespace ext

/// A feedback policy has these functions:
///
///     compensate(context<In, E>, g, p, local const)               sets p, the codec's input; called once per round
///     update(context<In, E>, p, sent, local)                      called once per step; sent = D(C(p)) or, in an
///                                                                 exchange, the value that feedback_on selects.
///                                                                 If the codec is lossless, `sent` and p are the
///                                                                 same view
///     rescale(exec, factor, replicated, local)                    called for a new loss scale or learning rate
///
/// Facets, which a policy declares as `using facets = ext::facets<...>` (core/facets.hpp):
///
///     ext::fused          source(g, local)                        returns a source of p (core/source.hpp), with which
///                                                                 the codec encodes p and writes the residual in one
///                                                                 pass, if has_source() is true
///     ext::after_mean     after_exchange(context<In, E>, mean, replicated, local)   may change the mean
///     ext::unsent         add_unsent(context<In, E>, unsent, local)   adds to the residual the part of the mean that
///                                                                 In, half or bfloat16, cannot hold
///     ext::kept_residual  residual_in(local)                      returns the buffer of the residual, which has not
///                                                                 been delivered
///     ext::divided        unit()                                  the number by which the policy divides the decoded
///                                                                 mean. Another policy continues with residual / unit()
///     ext::momentum       changes_gradients()                     true if gradients change even with a lossless codec
///     ext::scratch        scratch_bytes<In>(exec, dims)           the workspace bytes that the functions take
///     ext::memoryless                                             the policy does not store the compression error, so
///                                                                 no state can grow, and it accepts any codec
///     ext::no_debt                                                the states contain no part of a gradient that is
///                                                                 still to be delivered
///     ext::updates_on<on>                                         `update` receives the values that feedback_on selects
///
/// A policy with states has the facet kept_residual or no_debt. Without either, `change` of an exchange replaces the
/// policy only by an equal one.
template <class F, class In, class E>
concept feedback = std::copyable<F> && real<In> && executor<E> &&
    requires(F const& f, context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
             values_on<E, accum<In> const> sent, replicated_of<F, In, E>& replicated, local_of<F, In, E>& local) {
  { f.name() } -> std::convertible_to<std::string>;
  { f.compensate(cx, g, p, std::as_const(local)) } -> std::same_as<void>;
  { f.update(cx, sent, sent, local) } -> std::same_as<void>;
  { f.rescale(cx.exec, 2.0, replicated, local) } -> std::same_as<void>;
};

namespace detail {

template <class F>
concept memoryless = declares<std::remove_cvref_t<F>, ext::memoryless>;

}  // namespace detail

/// The traits of a feedback policy, from its facets and its members `is_reproducible` and `changes_gradients()`.
struct feedback_traits {
  feedback_on updates_on = feedback_on::first_known;
  bool is_memoryless = false;
  bool reproducible = false;
  bool changes_gradients = false;  ///< true if gradients change even with a lossless codec, as with momentum
  bool changes_mean = false;       ///< true if the policy has after_exchange
};

namespace detail {

/// A type-erased feedback policy. The traits of a type-erased policy are known only at run time.
template <class F>
concept erased_feedback = requires(F const& f) {
  { f.traits() } -> std::same_as<feedback_traits>;
};

template <class F, class In, class E>
concept has_after_exchange = requires(F const& f, context<In, E> const& cx, values_on<E, accum<In>> mean,
                                      replicated_of<F, In, E>& replicated, local_of<F, In, E>& local) {
  f.after_exchange(cx, mean, replicated, local);
};

template <class F, class In, class E>
concept adds_unsent =
    !std::same_as<In, accum<In>> &&
    requires(F const& f, context<In, E> const& cx, values_on<E, accum<In>> unsent, local_of<F, In, E>& local) {
  f.add_unsent(cx, unsent, local);
};

/// The source type of a policy that declares `source`. Without this separate class, nvcc would look for `source` in
/// policies that do not declare it.
template <class F, class In, class E>
struct feedback_source {
  using type = decltype(std::declval<F const&>().template source<In, E>(values_on<E, In const>(),
                                                                        std::declval<local_of<F, In, E>&>()));
};

template <class F>
constexpr feedback_on declared_updates_on() {
  if constexpr (declares<F, ext::updates_on<feedback_on::own>>) return feedback_on::own;
  if constexpr (declares<F, ext::updates_on<feedback_on::mean>>) return feedback_on::mean;
  return feedback_on::first_known;
}

template <class F>
feedback_traits feedback_traits_of(F const& policy) {
  if constexpr (erased_feedback<F>) {
    return policy.traits();
  } else {
    auto of = feedback_traits{declared_updates_on<F>(), memoryless<F>, reproducible<F>, false};
    if constexpr (requires { policy.changes_gradients(); }) of.changes_gradients = policy.changes_gradients();
    of.changes_mean = declares<F, ext::after_mean>;
    return of;
  }
}

/// Returns the number by which a policy divides the decoded mean. A residual e of the policy counts as e / unit of the
/// gradient.
template <class F>
double unit_of(F const& policy) {
  if constexpr (requires { policy.unit(); }) {
    return policy.unit();
  } else {
    return 1;
  }
}

/// True if the policy's states contain no part of a gradient that is still to be delivered.
template <class F>
concept owes_nothing = memoryless<F> || declares<F, ext::no_debt>;

/// The workspace bytes that a policy's functions take.
template <class In, class F, class E>
std::size_t policy_scratch_bytes(F const& policy, [[maybe_unused]] E const& exec, [[maybe_unused]] shape const& dims) {
  if constexpr (requires { policy.template scratch_bytes<In>(exec, dims); }) {
    return policy.template scratch_bytes<In>(exec, dims);
  } else {
    return 0;
  }
}

/// The policy's name without parameters.
template <class F>
std::string policy_word(F const& policy) {
  auto const name = std::string(policy.name());
  return name.substr(0, name.find('('));
}

/// Returns the place of a feedback policy. Policies with equal words have interchangeable states, although their
/// parameters may differ. But if `policy` declares neither kept_residual nor no_debt, the meaning of its states is
/// unknown, and only a policy with an equal name can use them.
template <class A, class F>
feedback_place<A> place_of(F const& policy, feedback_scope const& at, auto& replicated, auto& local) {
  auto fields = field_list();
  replicated.fields(fields), fields.local(local);
  auto place = feedback_place<A>{at, policy_word(policy), std::move(fields.all)};
  auto const traits = feedback_traits_of(policy);
  if constexpr (requires { policy.residual_in(local); }) {
    place.residual = policy.residual_in(local), place.weight = at.weight / unit_of(policy);
  } else if constexpr (!owes_nothing<F>) {
    place.policy = policy.name(), place.is_known = false;
  }
  place.adds_up = traits.is_memoryless || (!place.residual.is_null() && !traits.changes_gradients);
  return place;
}

/// Appends the places of a feedback policy, unless its states are empty.
template <class F, class A>
void append_places(F const& policy, feedback_scope const& at, auto& replicated, auto& local,
                   feedback_places<A>& places) {
  if constexpr (erased_feedback<F>) {
    policy.visit_feedback(at, replicated, local, places);
  } else {
    auto place = place_of<A>(policy, at, replicated, local);
    if (place.has_states()) places.push_back(std::move(place));
  }
}

}  // namespace detail

namespace ext {

/// Multiplies all values of a buffer by a factor.
template <class A, executor E>
void rescale_buffer(E const& exec, double factor, buffer<A, E> const& values) {
  auto* const x = values.data();
  exec.for_each_index(values.size(), detail::scale<A, A>{x, x, static_cast<accum<A>>(factor)});
}

}  // namespace ext
}}  // namespace pith::PITH_ABI
