// pith/feedback/feedback.hpp — what a feedback policy does before encoding, after it, and after the exchange.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace pith::inline v0 {

/// Three moments, and a fourth that may be left out:
///
///     compensate(exec, call, shape, g, p, local const, ws)  p is what the codec encodes; asked once a round
///     commit(exec, call, shape, p, sent, local, ws)         once a step: sent = D(C(p)); p itself, the same
///                                                           stream, where nothing is lost
///     settle(exec, call, shape, mean, agreed, local, ws)    after the exchange; may change the mean that all receive
///     rescale(exec, factor, agreed, local)                  loss scale or learning rate changed
template <class F, class In, class E>
concept feedback = std::copyable<F> && real<In> && executor<E> &&
    requires(F const& f, E const& exec, call const& id, shape const& dims, values_on<E, In const> g,
             values_on<E, accum<In>> p, values_on<E, accum<In> const> sent, replicated_of<F, In, E>& replicated,
             local_of<F, In, E>& local, workspace_on<E>& ws) {
  { f.name() } -> std::convertible_to<std::string>;
  { f.compensate(exec, id, dims, g, p, std::as_const(local), ws) } -> std::same_as<void>;
  { f.update(exec, id, dims, sent, sent, local, ws) } -> std::same_as<void>;
  { f.rescale(exec, 2.0, replicated, local) } -> std::same_as<void>;
};

/// What was not sent is lost to the policy: nothing can grow, so that it takes any codec.
template <class F>
concept memoryless = requires {
  requires std::remove_cvref_t<F>::is_memoryless;
};

/// Which decoded values commit is told.
enum class feedback_on : std::uint8_t {
  first_known,  ///< the rank's own, where the codec knows them before the exchange ends; else the mean that all receive
  own,          ///< the rank's own
  mean,         ///< the mean
};

/// What a policy is beside its moments: what it declares as `commits`, `is_memoryless`, `is_reproducible` and
/// `changes_gradients()`.
struct feedback_traits {
  feedback_on updates_on = feedback_on::first_known;
  bool is_memoryless = false;
  bool reproducible = false;
  bool changes_gradients = false;  ///< it makes something else even of what is sent without loss: a momentum, say
};

/// Its traits are known at run time only.
template <class F>
concept erased_feedback = requires(F const& f) {
  { f.traits() } -> std::same_as<feedback_traits>;
};

namespace detail {

template <class F, class In, class E>
concept has_after_exchange = requires(F const& f, E const& exec, call const& id, shape const& dims,
                                      values_on<E, accum<In>> mean, replicated_of<F, In, E>& replicated,
                                      local_of<F, In, E>& local, workspace_on<E>& ws) {
  f.after_exchange(exec, id, dims, mean, replicated, local, ws);
};

/// What an engine may encode from, of a policy that has a source: in a class of its own, since nvcc would look for it
/// in policies that have none.
template <class F, class In, class E>
struct feedback_source {
  using type = decltype(std::declval<F const&>().template source<In, E>(values_on<E, In const>(),
                                                                        std::declval<local_of<F, In, E>&>()));
};

template <class F>
constexpr feedback_on update_moment() {
  if constexpr (requires { F::updates_on; }) {
    return F::updates_on;
  } else {
    return feedback_on::first_known;
  }
}

template <class F>
feedback_traits traits_of(F const& policy) {
  if constexpr (erased_feedback<F>) {
    return policy.traits();
  } else {
    auto of = feedback_traits{update_moment<F>(), memoryless<F>, reproducible<F>, false};
    if constexpr (requires { policy.changes_gradients(); }) of.changes_gradients = policy.changes_gradients();
    return of;
  }
}

/// Multiplies what is kept by a factor.
template <class A, executor E>
void rescale_buffer(E const& exec, double factor, buffer<A, E> const& kept) {
  exec.for_each_index(kept.size(), scale<A, A>{kept.data(), kept.data(), static_cast<A>(factor)});
}

}  // namespace detail
}  // namespace pith::inline v0
