// pith/feedback/clipping.hpp — gradient clipping before momentum.
#pragma once

#include <pith/codec/context.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/squares.hpp>
#include <pith/core/detail/summation.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Sets *factor to the factor that reduces the norm of a tensor to `most`. The factor is 1 if the norm is at most
/// `most`, or not finite.
template <class Sum>
struct factor_to_norm {
  Sum const* sum;
  double* factor;
  double most;
  PITH_HD void operator()(std::uint64_t) const {
    auto const norm = root(*sum);
    *factor = is_finite(norm) && norm > most ? most / norm : 1;
  }
};

/// Sets `to` to `from`, clamped to [-most, most]. NaN stays NaN.
template <class To, class From>
struct clamp_to {
  From const* from;
  To* to;
  To most;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const x = element_cast<To>(from[i]);
    to[i] = x > most ? most : x < -most ? -most : x;
  }
};

template <class To, class From, executor E>
void clip_to_norm(E const& exec, std::uint64_t n, From const* from, To* to, double most, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  using sum_type = squares<accum<From>>;
  auto* const sum = ws.template take<sum_type>(1).data;
  auto* const factor = ws.template take<double>(1).data;
  reduce_into(exec, sum, n, squared_element<From>{from}, plus_squares(), sum_type(), ws);
  exec.for_each_index(1, factor_to_norm<sum_type>{sum, factor, most});
  exec.for_each_index(n, scale_by<To, From>{from, to, factor});
}
constexpr std::size_t clip_scratch_bytes(std::uint64_t n) {
  return scratch_for<wide_squares>(1) + scratch_for<double>(1) + reduce_scratch_bytes<wide_squares>(n);
}

}  // namespace detail

/// Limits the norm of a tensor's gradient on one rank, or limits each element of the gradient. The norm of a sum of
/// `ranks` independent gradients is about sqrt(ranks) times the norm of one gradient. To limit the norm of the sum to
/// `most`, use norm(most, ranks) = norm(most / sqrt(ranks)).
///
///   requires    0 < most < infinity, ranks >= 1 (std::invalid_argument)
///   on NaN      if the norm of a tensor is NaN or infinite, the tensor is not scaled
///   errors      a ratio of `most` and the norm below 2^-126 loses digits as a float
///   reference   Lin, Han, Mao, Wang and Dally, Deep Gradient Compression, ICLR 2018, section 3.2
class clipping {
 public:
  constexpr clipping() = default;
  static clipping norm(double most, unsigned ranks = 1) {
    detail::require(ranks >= 1, "clipping: ranks must be at least 1, got ", ranks);
    return {rule::norm, most / std::sqrt(static_cast<double>(ranks))};
  }
  static clipping value(double most) { return {rule::value, most}; }

  bool clips() const { return rule_ != rule::none; }
  /// The text that parse reads. The text is empty without clipping.
  std::string name() const {
    if (!clips()) return "";
    return detail::text(rule_ == rule::norm ? "clip_norm(" : "clip_value(", detail::shortest(most_), ")");
  }

  std::size_t scratch_bytes(shape const& dims) const {
    return rule_ == rule::norm ? detail::clip_scratch_bytes(dims.n) : 0;
  }
  /// Sets `to` to the clipped gradient g.
  template <real In, executor E>
  void apply(context<In, E> const& cx, In const* g, accum<In>* to) const {
    using A = accum<In>;
    switch (rule_) {
      case rule::none: return cx.exec.for_each_index(cx.dims.n, detail::convert<A, In>{g, to});
      case rule::norm: return detail::clip_to_norm(cx.exec, cx.dims.n, g, to, most_, cx.ws);
      case rule::value: return cx.exec.for_each_index(cx.dims.n, detail::clamp_to<A, In>{g, to, limit<A>()});
    }
  }

 private:
  /// The limit as a number of A: at least the smallest positive one, and at most the largest finite one.
  template <class A>
  A limit() const {
    constexpr double least = std::numeric_limits<A>::denorm_min(), largest = largest_finite<A>;
    return static_cast<A>(std::clamp(most_, least, largest));
  }

  enum class rule : std::uint8_t { none, norm, value };

  clipping(rule how, double most) : rule_(how), most_(most) {
    detail::require(0 < most && most < HUGE_VAL, "clipping: most must be positive and finite, got ", most);
  }

  rule rule_ = rule::none;
  double most_ = 0;
};

/// The number of workspace bytes that clip_to_norm needs for n elements.
constexpr std::size_t clip_workspace_bytes(std::uint64_t n) {
  return detail::clip_scratch_bytes(n) + detail::scratch_alignment;
}

/// Multiplies the gradients of all tensors of a model by one factor, in place. The joint norm of the gradients is then
/// at most `most` / sqrt(ranks). Call this function before the exchange.
///
///   requires    a workspace of clip_workspace_bytes(gradients.size()) bytes
///   on NaN      if the norm is NaN or infinite, the gradients are unchanged
template <real In, executor E>
void clip_to_norm(E const& exec, span_on<E, In> gradients, double most, unsigned ranks, workspace_on<E>& ws) {
  detail::require(0 < most && most < HUGE_VAL, "clip_to_norm: most must be positive and finite, got ", most);
  detail::require(ranks >= 1, "clip_to_norm: ranks must be at least 1, got ", ranks);
  ws.require("clip_to_norm", "clip_workspace_bytes", clip_workspace_bytes(gradients.size()));
  auto* const x = gradients.data();
  detail::clip_to_norm(exec, gradients.size(), x, x, most / std::sqrt(static_cast<double>(ranks)), ws);
}

}}  // namespace pith::PITH_ABI
