// pith/feedback/momentum_correction.hpp — a residual that accumulates momentum.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/error.hpp>
#include <pith/feedback/clipping.hpp>
#include <pith/feedback/feedback.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

struct momentum_options {
  bool nesterov = false;
  bool masks = true;  ///< if true, the momentum of sent entries is reset
  clipping clip = {};
};

namespace detail {

/// Sets p to v + (u + g).
template <class In>
struct add_momentum {
  In const* g;
  accum<In> const* u;
  accum<In> const* v;
  accum<In>* p;
  PITH_HD void operator()(std::uint64_t i) const { p[i] = v[i] + (u[i] + element_cast<accum<In>>(g[i])); }
};

/// factor (a + b), also if a + b would be infinite.
template <class A>
PITH_HD inline A scaled_sum(A factor, A a, A b) {
  auto const sum = a + b;
  return is_finite(sum) ? factor * sum : bounded(factor * a + factor * b);
}

template <class A>
struct grow_momentum {
  A const* g;
  A const* u;
  A* to;
  A momentum;
  PITH_HD void operator()(std::uint64_t i) const { to[i] = scaled_sum(momentum, u[i], g[i]); }
};

/// Sets u to `factor` times (p - v), or with Nesterov momentum to `factor` times (u + p - v). Then sets v to p - sent.
/// The difference p - v, with the old v, is the sum that `compensate` added to v. With masking, u is 0 for sent
/// entries. Where p - sent or p - v is NaN or infinite, sets u to bounded_residual(u) and v to bounded_residual(v)
/// (core/source.hpp).
template <class A>
struct keep_momentum {
  A const* p;
  A const* sent;
  A* u;
  A* v;
  A factor;
  bool nesterov;
  bool masks;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const added = p[i] - v[i];
    auto const next = masks && sent[i] != 0 ? A{0} : scaled_sum(factor, nesterov ? u[i] : A{0}, added);
    auto const unsent = p[i] - sent[i];
    auto const is_number = is_finite(unsent) && is_finite(added);
    u[i] = is_number ? next : bounded_residual(u[i]);
    v[i] = is_number ? unsent : bounded_residual(v[i]);
  }
};

}  // namespace detail

/// In each step, sets u = m u + g, where m is the momentum. Encodes p = v + u, and sets v = p - D(C(p)), where D(C(p))
/// is the decoded payload. Over all steps, the sum of the decoded payloads plus v equals the sum of u. With Nesterov
/// momentum, p is v + g + m u. The optimizer must not add its own momentum. By default, u is set to 0 for each entry
/// that is sent (masking), so that the entry does not continue in a stale direction. With a lossless codec there is no
/// masking, and the result is SGD with momentum. A codec that sends every element approximately, such as a quantizer,
/// needs `masks = false`.
///
///   requires    0 <= momentum < 1 (std::invalid_argument)
///   state       2 n rank-local elements of accum<In>: v and m u. The product m u is stored before it is added, so that
///               rounding does not depend on the compiler
///   complexity  with Nesterov momentum, scratch memory for n elements. clip_norm reads g one additional time
///   on NaN      where a gradient or its decoded value is NaN or infinite, values of u and v of at most 2^47 (2^495 for
///               doubles) stay unchanged. Larger values become 0, because their squares may have overflowed in a sum
///   properties  reproducible. For doubles with clip_norm, this promise requires that the compiler fuses no
///               multiply-adds in sums
///   reference   Lin, Han, Mao, Wang and Dally, Deep Gradient Compression, ICLR 2018. Unlike in that paper, v also
///               keeps the error of a quantizer
class momentum_correction {
 public:
  using facets = ext::facets<ext::unsent, ext::kept_residual, ext::momentum, ext::scratch>;

  static constexpr bool is_reproducible = true;

  explicit momentum_correction(double momentum = 0.9, momentum_options options = {})
      : momentum_(momentum), options_(options) {
    detail::require(0 <= momentum && momentum < 1 && static_cast<float>(momentum) < 1,
                    "momentum_correction: momentum must be in [0, 1), also as a float, got ", momentum);
  }

  template <class A, executor E>
  struct local {
    buffer<A, E> momentum, residual;
    void fields(field_visitor& f) { f(momentum), f(residual); }
  };

  std::string name() const {
    auto const clip = options_.clip.name();
    return detail::text("momentum_correction(", detail::shortest(momentum_), options_.nesterov ? ",nesterov" : "",
                        options_.masks ? "" : ",unmasked", clip.empty() ? "" : ",", clip, ")");
  }
  bool changes_gradients() const { return true; }

  template <real In, executor E>
  local<accum<In>, E> make_local(E const& exec, shape const& dims) const {
    return {buffer<accum<In>, E>(exec, dims.n), buffer<accum<In>, E>(exec, dims.n)};
  }
  template <real In, executor E>
  std::size_t scratch_bytes(E const&, shape const& dims) const {
    return options_.clip.scratch_bytes(dims) + (options_.nesterov ? scratch_for<accum<In>>(dims.n) : 0);
  }

  template <real In, executor E>
  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
                  local<accum<In>, E> const& mine) const {
    using A = accum<In>;
    auto const* u = mine.momentum.data();
    auto const* const v = mine.residual.data();
    if (!options_.nesterov && !options_.clip.clips()) {
      return cx.exec.for_each_index(cx.dims.n, detail::add_momentum<In>{g.data, u, v, p.data});
    }
    auto const scope = cx.ws.mark();
    options_.clip.apply<In>(cx, g.data, p.data);
    if (options_.nesterov) {
      auto const ahead = cx.ws.template take<A>(cx.dims.n);
      cx.exec.for_each_index(cx.dims.n, detail::grow_momentum<A>{p.data, u, ahead.data, static_cast<A>(momentum_)});
      u = ahead.data;
    }
    cx.exec.for_each_index(cx.dims.n, detail::add_momentum<A>{p.data, u, v, p.data});
  }

  template <real In, executor E>
  void update(context<In, E> const& cx, values_on<E, accum<In> const> p, values_on<E, accum<In> const> sent,
              local<accum<In>, E>& mine) const {
    using A = accum<In>;
    auto const is_dense = sent.data == p.data;
    // With u' = m (u + g) and p - v = u' + g: u' = (u + (p - v)) m / (1 + m).
    auto const factor = options_.nesterov ? momentum_ / (1 + momentum_) : momentum_;
    cx.exec.for_each_index(
        cx.dims.n, detail::keep_momentum<A>{p.data, sent.data, mine.momentum.data(), mine.residual.data(),
                                            static_cast<A>(factor), options_.nesterov, options_.masks && !is_dense});
  }
  template <real In, executor E>
  void add_unsent(context<In, E> const& cx, values_on<E, accum<In>> unsent, local<accum<In>, E>& mine) const {
    using A = accum<In>;
    cx.exec.for_each_index(cx.dims.n, detail::add<A, A>{unsent.data, mine.residual.data()});
  }
  auto& residual_in(auto& mine) const { return mine.residual; }
  template <class A, executor E>
  void rescale(E const& exec, double factor, no_state&, local<A, E>& mine) const {
    detail::rescale_buffer(exec, factor, mine.momentum);
    detail::rescale_buffer(exec, factor, mine.residual);
  }

 private:
  double momentum_;
  momentum_options options_;
};

static_assert(feedback<momentum_correction, float, archetype>);

}}  // namespace pith::PITH_ABI
