// pith/exchange/mean_norm.hpp — clipping of a rank's gradient to the mean norm over the ranks.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/squares.hpp>
#include <pith/core/detail/summation.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Sets norms[0] to sqrt(sums[0]), and norms[1] to sqrt(sums[1] / ranks).
template <class Sum>
struct roots_of_squares {
  Sum const* sums;
  double* norms;
  double ranks;
  PITH_HD void operator()(std::uint64_t) const {
    norms[0] = root(sums[0]);
    norms[1] = root(sums[1] / ranks);
  }
};

/// Replaces norms[0] by the factor min(1, norms[1] / norms[0]), which reduces the norm norms[0] to at most norms[1].
/// The factor is 1 if norms[1] is not finite.
struct factor_of_norms {
  double* norms;
  PITH_HD void operator()(std::uint64_t) const {
    norms[0] = is_finite(norms[1]) && norms[0] > norms[1] ? norms[1] / norms[0] : 1;
  }
};

/// Clamps x to [-*most, *most]. x is unchanged if `*most` is NaN or 0.
template <class In>
struct clamp_by {
  In* x;
  double const* most;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const bound = static_cast<accum<In>>(*most > 0 ? *most : HUGE_VAL), value = element_cast<accum<In>>(x[i]);
    x[i] = element_cast<In>(value > bound ? bound : value < -bound ? -bound : value);
  }
};

/// Computes two doubles in the executor's memory: the norm of x on this rank, and sqrt(mean over the ranks of |x|^2).
template <real In, executor E, class Comm>
double* take_norms(E const& exec, Comm& comm, span_on<E, In> x, workspace_on<E>& ws) {
  static_assert(has_all_reduce<Comm, E, double>,
                "pith: this communicator lacks all_reduce(exec, span<double>, reduction), which a mean norm needs");
  using sum_type = squares<accum<In>>;
  auto* const norms = ws.template take<double>(2).data;
  auto* const sums = ws.template take<sum_type>(2).data;
  reduce_into(exec, sums, x.size(), squared_element<In>{x.data()}, plus_squares(), sum_type(), ws);
  exec.copy(sums + 1, sums, sizeof(sum_type));
  auto const parts = span_on<E, double>(reinterpret_cast<double*>(sums + 1), sizeof(sum_type) / sizeof(double));
  comm.all_reduce(exec, parts, reduction::sum).wait(exec);
  exec.for_each_index(1, roots_of_squares<sum_type>{sums, norms, static_cast<double>(comm.size())});
  return norms;
}

}  // namespace detail

/// The workspace bytes that `clip_to_mean_norm` and `clamp_to_mean_norm` need for n elements.
constexpr std::size_t mean_norm_workspace_bytes(std::uint64_t n) {
  using detail::wide_squares;
  return scratch_for<double>(2) + scratch_for<wide_squares>(2) + detail::reduce_scratch_bytes<wide_squares>(n) +
         detail::scratch_alignment;
}

/// Scales the rank's gradient, in place, to a norm of at most sqrt(mean over the ranks of |gradient|^2). All ranks call
/// `clip_to_mean_norm` before they exchange the gradient. All ranks pass the gradient of the same tensor, or the
/// gradients of all tensors.
///
///   requires    ws of mean_norm_workspace_bytes(gradient.size()) bytes
///   complexity  an all-reduce of one double, or of three doubles for gradients of doubles; reads the gradient twice;
///               allocates nothing
///   on NaN      if the norm of one rank's gradient is NaN or infinite, the gradients of all ranks are unchanged. A
///               gradient with norm 0 is also unchanged
///   reference   the released code of Deep Gradient Compression (Lin, Han, Mao, Wang and Dally, ICLR 2018)
template <real In, executor E, class Comm>
void clip_to_mean_norm(E const& exec, Comm& comm, span_on<E, In> gradient, workspace_on<E>& ws) {
  ws.require("clip_to_mean_norm", "mean_norm_workspace_bytes", mean_norm_workspace_bytes(gradient.size()));
  auto const scope = ws.mark();
  auto* const norms = detail::take_norms<In>(exec, comm, gradient, ws);
  exec.for_each_index(1, detail::factor_of_norms{norms});
  exec.for_each_index(gradient.size(), detail::scale_by<In, In>{gradient.data(), gradient.data(), norms});
}

/// Clamps each element to [-norm, norm], where norm = sqrt(mean over the ranks of |gradient|^2), as GRACE does. An
/// element's magnitude is at most the norm of the rank's gradient. So if the gradients of all ranks have similar norms,
/// clamping seldom changes an element. With a single rank, clamping changes nothing.
template <real In, executor E, class Comm>
void clamp_to_mean_norm(E const& exec, Comm& comm, span_on<E, In> gradient, workspace_on<E>& ws) {
  ws.require("clamp_to_mean_norm", "mean_norm_workspace_bytes", mean_norm_workspace_bytes(gradient.size()));
  auto const scope = ws.mark();
  auto const* const norms = detail::take_norms<In>(exec, comm, gradient, ws);
  exec.for_each_index(gradient.size(), detail::clamp_by<In>{gradient.data(), norms + 1});
}

}}  // namespace pith::PITH_ABI
