// pith/exchange/mean_norm.hpp — clipping of a rank's gradient to the mean norm over the ranks.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/detail/summation.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace pith::inline PITH_ABI {

namespace detail {

/// Replaces norms[0] by sqrt(norms[0]), and norms[1] by sqrt(norms[1] / ranks).
struct roots_of_squares {
  double* norms;
  double ranks;
  PITH_HD void operator()(std::uint64_t) const {
    norms[0] = sqrt(norms[0]);
    norms[1] = sqrt(norms[1] / ranks);
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

/// Clamps x to [-*most, *most]. x is unchanged if `*most` is NaN or 0. `*most` is 0 if all squares underflow.
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
  auto* const norms = ws.template take<double>(2).data;
  reduce_into(exec, norms, x.size(), square_of<In>{x.data()}, plus(), 0.0, ws);
  exec.copy(norms + 1, norms, sizeof(double));
  comm.all_reduce(exec, span_on<E, double>(norms + 1, 1), reduction::sum).wait(exec);
  exec.for_each_index(1, roots_of_squares{norms, static_cast<double>(comm.size())});
  return norms;
}

}  // namespace detail

/// The workspace bytes that `clip_to_mean_norm` and `clamp_to_mean_norm` need for n elements.
constexpr std::size_t mean_norm_workspace_bytes(std::uint64_t n) {
  return scratch_for<double>(2) + detail::reduce_scratch_bytes<double>(n) + detail::scratch_alignment;
}

/// Scales the rank's gradient, in place, to a norm of at most sqrt(mean over the ranks of |gradient|^2). All ranks call
/// `clip_to_mean_norm` before they exchange the gradient. All ranks pass the gradient of the same tensor, or the
/// gradients of all tensors.
///
///   requires    ws of mean_norm_workspace_bytes(gradient.size()) bytes
///   complexity  an all-reduce of one double; reads the gradient twice; allocates nothing
///   on NaN      if the norm of one rank's gradient is NaN or infinite, the gradients of all ranks are unchanged. A
///               gradient with norm 0 is also unchanged. A gradient of doubles below 1e-162 has norm 0, since the
///               squares underflow
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

}  // namespace pith::inline PITH_ABI
