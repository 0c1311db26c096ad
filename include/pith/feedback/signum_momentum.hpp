// pith/feedback/signum_momentum.hpp — a feedback policy that encodes the running mean of the gradients.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/error.hpp>
#include <pith/feedback/feedback.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Sets the momentum to beta p where the result is finite. Elsewhere the momentum stays unchanged.
template <class A>
struct keep_decayed {
  A const* p;
  A* momentum;
  A beta;
  PITH_HD void operator()(std::uint64_t i) const { momentum[i] = is_finite(p[i]) ? beta * p[i] : momentum[i]; }
};

}  // namespace detail

/// Encodes m = beta m + (1 - beta) g. Initially m = 0. There is no residual, because the policy discards the
/// compression error.
///
///   requires    0 <= beta < 1 (std::invalid_argument)
///   state       n rank-local elements of accum<In>: beta m. The product is stored before it is added, so that rounding
///               does not depend on the compiler
///   on NaN      where m is NaN or infinite, m is encoded unchanged, and the stored value stays unchanged
///   reference   Bernstein, Wang, Azizzadenesheli and Anandkumar, signSGD, ICML 2018, algorithm 2
class signum_momentum {
 public:
  using facets = ext::facets<ext::momentum, ext::memoryless>;

  static constexpr bool is_reproducible = true;

  explicit signum_momentum(double beta = 0.9) : beta_(beta) {
    detail::require(0 <= beta && beta < 1 && static_cast<float>(beta) < 1,
                    "signum_momentum: beta must be in [0, 1), also as a float, got ", beta);
  }

  template <class A, executor E>
  struct local {
    buffer<A, E> momentum;
    void fields(field_visitor& f) { f(momentum); }
  };

  std::string name() const { return detail::text("signum_momentum(", detail::shortest(beta_), ")"); }
  bool changes_gradients() const { return true; }

  template <real In, executor E>
  local<accum<In>, E> make_local(E const& exec, shape const& dims) const {
    return {buffer<accum<In>, E>(exec, dims.n)};
  }

  template <real In, executor E>
  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
                  local<accum<In>, E> const& mine) const {
    using A = accum<In>;
    cx.exec.for_each_index(cx.dims.n, detail::scale<A, In>{g.data, p.data, static_cast<A>(1 - beta_)});
    cx.exec.for_each_index(cx.dims.n, detail::add<A, A>{mine.momentum.data(), p.data});
  }
  template <real In, executor E>
  void update(context<In, E> const& cx, values_on<E, accum<In> const> p, values_on<E, accum<In> const>,
              local<accum<In>, E>& mine) const {
    using A = accum<In>;
    cx.exec.for_each_index(cx.dims.n, detail::keep_decayed<A>{p.data, mine.momentum.data(), static_cast<A>(beta_)});
  }
  template <class A, executor E>
  void rescale(E const& exec, double factor, no_state&, local<A, E>& mine) const {
    detail::rescale_buffer(exec, factor, mine.momentum);
  }

 private:
  double beta_;
};

static_assert(feedback<signum_momentum, float, archetype> && detail::memoryless<signum_momentum>);

}}  // namespace pith::PITH_ABI
