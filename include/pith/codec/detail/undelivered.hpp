// pith/codec/detail/undelivered.hpp — the undelivered residual, which the next step adds to the gradient.
#pragma once

#include <pith/codec/detail/feedback_places.hpp>
#include <pith/codec/state.hpp>
#include <pith/core/buffer.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/element.hpp>
#include <pith/core/executor.hpp>
#include <pith/core/source.hpp>
#include <pith/core/values.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Adds the residual to the gradient g. The residual becomes the part of the sum that In cannot represent. Where the
/// sum is NaN or infinite, both stay unchanged.
template <class In>
struct deliver_residual {
  accum<In>* residual;
  In* g;
  double const* common;  ///< that of the context
  PITH_HD void operator()(std::uint64_t i) const {
    auto const sum = residual[i] + element_cast<accum<In>>(g[i]);
    if (!is_finite(sum)) return;
    g[i] = saturated_cast<In>(sum, ext::largest_mean<In>(common));
    residual[i] = sum - element_cast<accum<In>>(g[i]);
  }
};

/// The residual of an earlier codec, if the tensor's codec has no feedback that could keep it. The next step adds the
/// residual to the gradient. For half and bfloat16, the rounding error of this sum is added to the gradient of the
/// following step, and so on.
template <class In, executor E>
class undelivered {
 public:
  undelivered() = default;
  explicit undelivered(buffer<accum<In>, E> residual)
      : residual_(std::move(residual)), is_pending_(residual_.size() > 0) {}

  bool is_pending() const { return is_pending_; }
  feedback_place<accum<In>> place(feedback_scope const& whole) {
    auto made = residual_place(whole, "residual", residual_, true);
    made.is_negligible = is_rounded_;
    return made;
  }

  void add_to(E const& exec, values_on<E, In> g, double const* common) {
    if (!is_pending_) return;
    exec.for_each_index(residual_.size(), deliver_residual<In>{residual_.data(), g.data, common});
    is_rounded_ = true;
    is_pending_ = !std::same_as<In, accum<In>>;
  }
  void rescale(E const& exec, double factor) {
    exec.for_each_index(residual_.size(), scale<accum<In>, accum<In>>{residual_.data(), residual_.data(),
                                                                      static_cast<accum<In>>(factor)});
  }
  void fields(field_visitor& f) {
    if (is_pending_) f(residual_);
  }

 private:
  buffer<accum<In>, E> residual_;
  bool is_pending_ = false;
  bool is_rounded_ = false;  ///< whether the residual is only the rounding error of a step
};

}}}  // namespace pith::PITH_ABI::detail
