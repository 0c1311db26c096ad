// examples/own/clamped_residual.hpp — error feedback with a limit on the magnitude of the residual.
#pragma once

#include <pith/feedback/feedback.hpp>

template <class In, class A>
struct add_residual {
  In const* g;
  A const* residual;
  A* p;
  PITH_HD void operator()(std::uint64_t i) const { p[i] = residual[i] + pith::element_cast<A>(g[i]); }
};
template <class A>
struct keep_clamped {
  A const *p, *sent;
  A *residual, most;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const unsent = p[i] - sent[i];
    if (pith::is_finite(unsent)) residual[i] = unsent < -most ? -most : unsent > most ? most : unsent;
  }
};

struct clamped_residual {
  static constexpr bool is_reproducible = true;
  double most;

  std::string name() const { return "clamped_residual(" + std::to_string(most) + ")"; }

  template <class A, pith::executor E>
  struct local {
    pith::buffer<A, E> residual;
    void fields(pith::field_visitor& f) { f(residual); }
  };
  template <pith::real In, pith::executor E, class A = pith::accum<In>>
  local<A, E> make_local(E const& exec, pith::shape const& dims) const {
    return {pith::buffer<A, E>(exec, dims.n)};
  }

  template <class In, pith::executor E, class A>
  void compensate(pith::context<In, E> const& cx, auto g, auto p, local<A, E> const& mine) const {
    cx.exec.for_each_index(cx.dims.n, add_residual<In, A>{g.data, mine.residual.data(), p.data});
  }
  template <class In, pith::executor E, class A>
  void update(pith::context<In, E> const& cx, auto p, auto sent, local<A, E>& mine) const {
    auto const keep = keep_clamped<A>{p.data, sent.data, mine.residual.data(), static_cast<A>(most)};
    cx.exec.for_each_index(cx.dims.n, keep);
  }
  void rescale(auto const& exec, double factor, pith::no_state&, auto& mine) const {
    pith::ext::rescale_buffer(exec, factor, mine.residual);
  }
};
static_assert(pith::feedback<clamped_residual, float, pith::archetype>);
