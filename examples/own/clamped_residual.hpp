// examples/own/clamped_residual.hpp — error feedback with a limit on the magnitude of the residual.
#pragma once

#include <pith/feedback/residual.hpp>

#include <stdexcept>

template <class A>
struct keep_clamped {
  A const *p, *sent;
  A *residual, most;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const unsent = p[i] - sent[i];
    if (pith::is_finite(unsent)) residual[i] = unsent < -most ? -most : unsent > most ? most : unsent;
  }
};

/// The sum of the payloads plus the residual is not the sum of the gradients, because a limited residual loses a part.
class clamped_residual {
 public:
  using facets = pith::ext::facets<pith::ext::kept_residual>;

  static constexpr bool is_reproducible = true;

  explicit clamped_residual(double most) : most_(most) {
    if (!(most > 0)) throw std::invalid_argument("clamped_residual: most must be above 0");
  }
  std::string name() const { return "clamped_residual(" + pith::ext::shortest(most_) + ")"; }

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
    cx.exec.for_each_index(cx.dims.n, pith::ext::add_residual<In>{g.data, mine.residual.data(), p.data});
  }
  template <class In, pith::executor E, class A>
  void update(pith::context<In, E> const& cx, auto p, auto sent, local<A, E>& mine) const {
    cx.exec.for_each_index(cx.dims.n, keep_clamped<A>{p.data, sent.data, mine.residual.data(), A(most_)});
  }
  void rescale(auto const& exec, double factor, pith::no_state&, auto& mine) const {
    pith::ext::rescale_buffer(exec, factor, mine.residual);
  }
  auto& residual_in(auto& mine) const { return mine.residual; }

 private:
  double most_;
};
static_assert(pith::feedback<clamped_residual, float, pith::archetype>);
