// pith/feedback/loco.hpp — error feedback that returns a part of the compression errors in each step.
#pragma once

#include <pith/core/error.hpp>
#include <pith/feedback/residual.hpp>

#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Sets the residual to beta residual + p - sent, and to 0 in every step whose number is a multiple of `period`. Where
/// p - sent is not finite, sets the residual to bounded_residual(residual) (core/source.hpp).
template <class A>
struct decay_and_add {
  A const* p;
  A const* sent;
  A* residual;
  A beta;
  std::uint64_t const* step;
  std::uint64_t period;

  PITH_HD void operator()(std::uint64_t i) const {
    residual[i] = period > 0 && *step % period == 0 ? A{0} : sum(residual[i], p[i] - sent[i]);
  }

 private:
  /// The product is limited before the addition, so that compilers do not contract them.
  PITH_HD A sum(A old, A unsent) const {
    return is_finite(unsent) ? bounded(bounded_product(beta, old) + unsent) : bounded_residual(old);
  }
};

}  // namespace detail

/// Encodes p = g + (1 - beta) e, and sets e = beta e + p - D(C(p)), where D(C(p)) is the decoded value of the rank's
/// own payload. So (1 - beta) e is the moving average of the compression errors, as in LoCo. Sets e = 0 in every step
/// whose number is a multiple of `period`; with period 0, never. Until then, the sum of the decoded payloads plus e
/// equals the sum of the gradients. Use loco with codecs of small relative error, such as block_int<4>, and not with
/// sparsifiers.
///
///   requires    0 <= beta < 1, also as a float (std::invalid_argument); a codec that can return a rank's own share
///   state       as residual
///   complexity  separate passes before and after encoding
///   on NaN      as residual
///   reference   Xie, Lin, Toh and Zhou, LoCo: Low-Bit Communication Adaptor for Large-scale Model Training, 2024, with
///               residuals of full precision
class loco : public residual<detail::accumulated, detail::chosen_weights> {
 public:
  using facets = ext::extended<residual::facets, ext::updates_on<feedback_on::own>>;

  explicit loco(double of_average = 0.8, std::uint64_t period = 1024) : beta_(of_average), period_(period) {
    detail::require(0 <= beta_ && static_cast<float>(beta_) < 1, "loco: beta must be in [0, 1), got ", beta_);
  }

  std::string name() const { return detail::text("loco(", detail::shortest(beta_), ",", period_, ")"); }
  bool has_source() const { return false; }

  template <real In, executor E>
  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
                  local<accum<In>, E> const& mine) const {
    using A = accum<In>;
    auto const part = 1 - static_cast<A>(beta_);
    cx.exec.for_each_index(cx.dims.n, detail::scale<A, A>{mine.residual.data(), p.data, part});
    cx.exec.for_each_index(cx.dims.n, detail::add<A, In>{g.data, p.data});
  }
  template <real In, executor E>
  void update(context<In, E> const& cx, values_on<E, accum<In> const> p, values_on<E, accum<In> const> sent,
              local<accum<In>, E>& mine) const {
    using A = accum<In>;
    cx.exec.for_each_index(cx.dims.n, detail::decay_and_add<A>{p.data, sent.data, mine.residual.data(),
                                                               static_cast<A>(beta_), cx.id.step, period_});
  }

 private:
  double beta_;
  std::uint64_t period_;
};

static_assert(feedback<loco, float, archetype>);

}}  // namespace pith::PITH_ABI
