// pith/feedback/two_sided.hpp — compression to and from a server, with a second residual at the server.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/explain.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/error.hpp>
#include <pith/feedback/detail/contraction.hpp>
#include <pith/feedback/feedback.hpp>
#include <pith/feedback/residual.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace pith::inline v0 {

/// The ranks use the feedback policy `F`. The server computes p = e + mean, returns D(C(p)) and keeps e = p - D(C(p)).
/// Every rank computes the server's part itself, with the same result. With residuals on both sides, three terms add up
/// to the sum of the mean gradients: the sum of the results, e, and the mean of the ranks' residuals.
///
///   requires    a C that contracts for the tensor's shape, as error_feedback requires (std::invalid_argument when the
///               state is made)
///   state       replicated: n elements of accum<In>, C's state and F's replicated state; rank-local: F's rank-local
///               state
///   complexity  one additional encoding and decoding; additional scratch memory for n elements and a payload; no
///               additional traffic. A real server would return payload_bytes<accum<In>>(c, shape) bytes
///   on NaN      where the mean or its decoded value is NaN or infinite, e stays unchanged
///   reference   Tang, Yu, Lian, Zhang and Liu, DoubleSqueeze, ICML 2019; Zheng, Huang and Kwok, NeurIPS 2019
template <class C, class F = residual>
class two_sided {
  static_assert(detail::may_contract<C>,
                "pith: two_sided(c) needs a c that promises to contract: one with delta, omega or error_bound");
  static_assert(!terminal<C>, "pith: two_sided(c) needs a stage or a chain of them; it already adds feedback");

 public:
  explicit two_sided(C server, F worker = F()) : server_(std::move(server)), worker_(std::move(worker)) {}

  template <class In, executor E>
  struct replicated {
    buffer<accum<In>, E> residual;
    replicated_of<C, accum<In>, E> codec;
    local_of<C, accum<In>, E> server;
    replicated_of<F, In, E> worker;
    void fields(field_visitor& f) { f(residual), codec.fields(f), server.fields(f), worker.fields(f); }
  };

  std::string name() const {
    auto const worker = worker_.name();
    return detail::text("two_sided(", server_.name(), worker == "residual" ? "" : "," + worker, ")");
  }
  /// The traits of the ranks' feedback policy, combined with the traits of the server's part.
  feedback_traits traits() const {
    auto of = detail::traits_of(worker_);
    of.reproducible = of.reproducible && reproducible<C>;
    of.changes_gradients = true;
    return of;
  }

  template <real In, executor E>
  replicated<In, E> make_replicated(E const& exec, call const& id, shape const& dims) const {
    detail::require_contraction("two_sided", server_, dims);
    return {buffer<accum<In>, E>(exec, dims.n), pith::make_replicated<accum<In>>(exec, server_, at_server(id), dims),
            pith::make_local<accum<In>>(exec, server_, dims), pith::make_replicated<In>(exec, worker_, id, dims)};
  }
  template <real In, executor E>
  auto make_local(E const& exec, shape const& dims) const {
    return pith::make_local<In>(exec, worker_, dims);
  }
  template <real In, executor E>
  std::size_t scratch_bytes(E const& exec, shape const& dims) const {
    using A = accum<In>;
    auto const server = scratch_for<A>(dims.n) + scratch_for<std::byte>(payload_bytes<A>(server_, dims)) +
                        detail::scratch_bytes<A>(server_, exec, dims);
    return std::max(server, detail::scratch_bytes<In>(worker_, exec, dims));
  }

  template <real In, executor E>
  void compensate(E const& exec, call const& id, shape const& dims, values_on<E, In const> g, values_on<E, accum<In>> p,
                  local_of<F, In, E> const& mine, workspace_on<E>& ws) const {
    worker_.compensate(exec, id, dims, g, p, mine, ws);
  }
  template <class A, executor E>
  void update(E const& exec, call const& id, shape const& dims, values_on<E, A const> p, values_on<E, A const> sent,
              auto& mine, workspace_on<E>& ws) const {
    worker_.update(exec, id, dims, p, sent, mine, ws);
  }
  template <class In, executor E>
  void after_exchange(E const& exec, call const& id, shape const& dims, values_on<E, accum<In>> mean,
                      replicated<In, E>& all, local_of<F, In, E>& mine, workspace_on<E>& ws) const {
    serve(exec, at_server(id), dims, mean, all, ws);
    if constexpr (detail::has_after_exchange<F, In, E>)
      worker_.after_exchange(exec, id, dims, mean, all.worker, mine, ws);
  }
  template <class In, executor E>
  void rescale(E const& exec, double factor, replicated<In, E>& all, auto& mine) const {
    detail::rescale_buffer(exec, factor, all.residual);
    worker_.rescale(exec, factor, all.worker, mine);
  }

 private:
  /// The server's context, with random bits that are equal on all ranks.
  static call at_server(call id) {
    id.hop = 1;
    return shared(id);
  }

  template <class In, executor E>
  void serve(E const& exec, call const& id, shape const& dims, values_on<E, accum<In>> mean, replicated<In, E>& all,
             workspace_on<E>& ws) const {
    using A = accum<In>;
    auto const scope = ws.mark();
    auto const size = payload_bytes<A>(server_, dims);
    auto const p = ws.template take<A>(dims.n);
    auto const payload = span_on<E, std::byte>(ws.template take<std::byte>(size).data, size);
    exec.for_each_index(dims.n, detail::add_residual<A>{mean.data, all.residual.data(), p.data});
    detail::encode_payload<A>(server_, exec, id, dims, values_on<E, A const>(p), payload, all.codec, all.server, ws);
    detail::decode_payload<A>(server_, exec, id, dims, payload, mean, all.codec, ws);
    exec.for_each_index(dims.n, detail::keep_unsent<A>{p.data, mean.data, all.residual.data(), A{1}});
  }

  C server_;
  [[no_unique_address]] F worker_;
};

}  // namespace pith::inline v0
