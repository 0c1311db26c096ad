// pith/feedback/feedback.hpp — what a feedback policy does before encoding, after it, and after the exchange.
#pragma once

#include <pith/core/stage.hpp>

#include <concepts>
#include <utility>

namespace pith::inline v0 {

/// Three moments, and a fourth that may be left out:
///
///     compensate(exec, call, shape, g, p, local const, ws)  p is what the codec encodes; asked once a round
///     commit(exec, call, shape, p, sent, local, ws)         once a step: sent = D(C(p)); sent = p after a dense step
///     settle(exec, call, shape, mean, agreed, local, ws)    after the exchange; may change the mean that all receive
///     rescale(exec, factor, local)                          loss scale or learning rate changed
template <class F, class In, class E>
concept feedback = std::copyable<F> && real<In> && executor<E> &&
    requires(F const& f, E const& exec, call const& id, shape const& dims, stream_on<E, In const> g,
             stream_on<E, accum<In>> p, stream_on<E, accum<In> const> sent, local_of<F, In, E>& local,
             workspace_on<E>& ws) {
  { f.name() } -> std::convertible_to<std::string>;
  { f.compensate(exec, id, dims, g, p, std::as_const(local), ws) } -> std::same_as<void>;
  { f.commit(exec, id, dims, sent, sent, local, ws) } -> std::same_as<void>;
  { f.rescale(exec, 2.0, local) } -> std::same_as<void>;
};

namespace detail {

template <class F, class In, class E>
concept settles = requires(F const& f, E const& exec, call const& id, shape const& dims, stream_on<E, accum<In>> mean,
                           agreed_of<F, In, E>& agreed, local_of<F, In, E>& local, workspace_on<E>& ws) {
  f.settle(exec, id, dims, mean, agreed, local, ws);
};

}  // namespace detail
}  // namespace pith::inline v0
