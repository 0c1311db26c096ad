// pith/feedback/two_sided.hpp — compression to and from a server, with a second residual at the server.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/codec.hpp>
#include <pith/codec/detail/contraction.hpp>
#include <pith/codec/explain.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/error.hpp>
#include <pith/feedback/detail/policy_check.hpp>
#include <pith/feedback/detail/widened.hpp>
#include <pith/feedback/feedback.hpp>
#include <pith/feedback/residual.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace pith { inline namespace PITH_ABI {

/// The ranks use the feedback policy `F`. Every rank also computes the server's part, with equal results: p = e + mean,
/// where e is the server's residual and `mean` is the decoded mean over the ranks. The result of the exchange is
/// D(C(p)), and e becomes p - D(C(p)). Let `F` be `residual`. Then, over all steps, the sum of the mean gradients
/// equals the sum of the results, plus e, plus the mean of the ranks' residuals.
///
///   requires    a C that contracts for the tensor's shape, as error_feedback requires (std::invalid_argument when the
///               state is made)
///   state       replicated: n elements of accum<In>, C's state and F's replicated state; rank-local: F's rank-local
///               state
///   complexity  one additional encoding and decoding; additional scratch memory for n elements and a payload; no
///               additional traffic. A real server would return payload_bytes<accum<In>>(c, shape) bytes
///   on NaN      where the mean or its decoded value is NaN or infinite, e stays unchanged if it is at most 2^47 (2^495 for
///               doubles), and otherwise becomes 0
///   reference   Tang, Yu, Lian, Zhang and Liu, DoubleSqueeze, ICML 2019; Zheng, Huang and Kwok, NeurIPS 2019
template <class C, class F = residual<>>
class two_sided {
  static_assert(detail::may_contract<C>,
                "pith: two_sided(c) needs a c that promises to contract: one with delta, omega or error_bound");
  static_assert(!traits_of<C>.terminal,
                "pith: two_sided(c) needs a stage or a chain of them; it already adds feedback");

 public:
  using facets = ext::computed;

  explicit two_sided(C server, F worker = F()) : server_(std::move(server)), worker_(std::move(worker)) {
    explain_facets<C>();
    detail::explain_policy<F>();
  }

  template <class In, executor E>
  struct replicated {
    buffer<accum<In>, E> residual;
    replicated_of<C, accum<In>, E> codec;
    local_of<C, accum<In>, E> server;
    replicated_of<F, In, E> worker;
    void fields(field_visitor& f) { f.of_gradients(residual), codec.fields(f), server.fields(f), worker.fields(f); }
  };

  std::string name() const {
    auto const worker = worker_.name();
    return detail::text("two_sided(", server_.name(), worker == "residual" ? "" : "," + worker, ")");
  }
  /// The traits of the ranks' feedback policy, combined with the traits of the server's part.
  feedback_traits traits() const {
    auto of = detail::feedback_traits_of(worker_);
    of.changes_mean = true;
    of.reproducible = of.reproducible && reproducible<C>;
    of.changes_gradients = true;
    return of;
  }

  template <real In, executor E>
  replicated<In, E> make_replicated(E const& exec, encoding_id const& id, shape const& dims) const {
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
    return std::max(server, detail::policy_scratch_bytes<In>(worker_, exec, dims));
  }

  template <real In, executor E>
  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
                  local_of<F, In, E> const& mine) const {
    worker_.compensate(cx, g, p, mine);
  }
  template <real In, executor E>
  void update(context<In, E> const& cx, values_on<E, accum<In> const> p, values_on<E, accum<In> const> sent,
              auto& mine) const {
    worker_.update(cx, p, sent, mine);
  }
  template <class In, executor E>
  void after_exchange(context<In, E> const& cx, values_on<E, accum<In>> mean, replicated<In, E>& all,
                      local_of<F, In, E>& mine) const {
    serve(cx, mean, all);
    if constexpr (detail::has_after_exchange<F, In, E>) worker_.after_exchange(cx, mean, all.worker, mine);
  }
  double unit() const { return detail::unit_of(worker_); }
  template <class In, class E>
  void visit_feedback(detail::feedback_scope const& at, replicated<In, E>& all, auto& mine, auto& places) const {
    detail::append_places(worker_, at, all.worker, mine, places);
    auto server = detail::residual_place(at, "two_sided " + detail::policy_word(worker_), all.residual, false);
    server.weight /= unit();
    if (server.has_states()) places.push_back(std::move(server));
  }
  template <class In, executor E>
  void rescale(E const& exec, double factor, replicated<In, E>& all, auto& mine) const {
    detail::rescale_buffer(exec, factor, all.residual);
    worker_.rescale(exec, factor, all.worker, mine);
  }

 private:
  /// The encoding id of the server, whose random bits are equal on all ranks.
  static encoding_id at_server(encoding_id id) {
    id.hop = 1;
    return shared(id);
  }

  template <class In, executor E>
  void serve(context<In, E> const& cx, values_on<E, accum<In>> mean, replicated<In, E>& all) const {
    using A = accum<In>;
    auto const scope = cx.ws.mark();
    auto const size = payload_bytes<A>(server_, cx.dims);
    auto const p = cx.ws.template take<A>(cx.dims.n);
    auto const payload = cx.ws.take_bytes(size);
    cx.exec.for_each_index(cx.dims.n, detail::add_residual<A>{mean.data, all.residual.data(), p.data});
    auto const own = cx.with(at_server(cx.id)).template of<A>();
    detail::encode_payload<A>(server_, own, values_on<E, A const>(p), payload, all.codec, all.server);
    detail::decode_payload<A>(server_, own, payload, mean, all.codec);
    if constexpr (!std::same_as<In, A>) round_mean(cx, mean);
    cx.exec.for_each_index(cx.dims.n, detail::keep_unsent<A>{p.data, mean.data, all.residual.data(), A{1}});
  }

  /// Rounds the mean to In, in the unit of gradients.
  template <class In, executor E>
  void round_mean(context<In, E> const& cx, values_on<E, accum<In>> mean) const {
    auto const to_mean = static_cast<accum<In>>(unit());
    detail::rescale<accum<In>>(cx.exec, mean, 1 / to_mean);
    cx.exec.for_each_index(cx.dims.n, detail::round_to<In>{mean.data, cx.common});
    detail::rescale<accum<In>>(cx.exec, mean, to_mean);
  }

  C server_;
  [[no_unique_address]] F worker_;
};

}}  // namespace pith::PITH_ABI
