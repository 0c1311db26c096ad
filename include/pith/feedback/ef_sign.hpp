// pith/feedback/ef_sign.hpp — error feedback scaled by the learning rate.
#pragma once

#include <pith/core/error.hpp>
#include <pith/feedback/residual.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// Encodes p = e + lr g, and sets e = p - D(C(p)), where lr is the learning rate and D(C(p)) is the decoded payload.
/// After the exchange, the policy divides the mean by lr, because the optimizer multiplies by the learning rate. In the
/// first step, e = 0 and p = lr g. The residual has the unit of a parameter update, so it does not change when the
/// learning rate changes. For a new learning rate, use a new codec with the same state.
///
///   requires    a learning rate of 1e-30 to 1e30 (std::invalid_argument). Elements of lr g are normal numbers of
///               accum<In>; smaller ones lose digits, and larger ones are infinite
///   state       as residual
///   on NaN      as residual
///   properties  outside an exchange, decompress returns D(C(p)) without the division by lr
///   reference   Karimireddy, Rebjock, Stich and Jaggi, Error Feedback Fixes SignSGD, ICML 2019, algorithm 1
class ef_sign : public residual<detail::accumulated, detail::chosen_weights> {
 public:
  using facets = ext::facets<ext::fused, ext::after_mean, ext::unsent, ext::kept_residual, ext::divided>;

  explicit ef_sign(double learning_rate) : residual(1, valid(learning_rate)), learning_rate_(learning_rate) {}

  std::string name() const { return detail::text("ef_sign(", detail::shortest(learning_rate_), ")"); }
  double unit() const { return learning_rate_; }

  template <real In, executor E>
  void after_exchange(context<In, E> const& cx, values_on<E, accum<In>> mean, no_state&, local<accum<In>, E>&) const {
    using A = accum<In>;
    cx.exec.for_each_index(cx.dims.n, detail::scale<A, A>{mean.data, mean.data, static_cast<A>(1 / learning_rate_)});
  }
  template <real In, executor E>
  void add_unsent(context<In, E> const& cx, values_on<E, accum<In>> unsent, local<accum<In>, E>& mine) const {
    add_times(cx, unsent, learning_rate_, mine);
  }

 private:
  static double valid(double learning_rate) {
    detail::require(1e-30 <= learning_rate && learning_rate <= 1e30,
                    "ef_sign: learning_rate must be in [1e-30, 1e30], got ", learning_rate,
                    learning_rate == 0 ? ": skip the exchange in steps with learning rate 0, which change no parameter"
                                       : "");
    return learning_rate;
  }

  double learning_rate_;
};

static_assert(feedback<ef_sign, float, archetype> && detail::has_after_exchange<ef_sign, float, archetype>);

}}  // namespace pith::PITH_ABI
