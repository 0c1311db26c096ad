// pith/feedback/detail/widened.hpp — conversion of half-precision tensors to accum<In>, and the inverse.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/detail/convert.hpp>
#include <pith/core/source.hpp>
#include <pith/core/workspace.hpp>

#include <concepts>
#include <cstddef>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Returns x itself if In is accum<In>, otherwise scratch memory for as many values of accum<In>. The caller writes
/// these values, and `narrow` then converts them to x.
template <class In, class E>
values_on<E, accum<In>> widened(values_on<E, In> x, workspace_on<E>& ws) {
  if constexpr (std::same_as<In, accum<In>>) {
    return x;
  } else {
    return ws.template take<accum<In>>(x.capacity);
  }
}
template <class In>
std::size_t wide_bytes(shape const& dims) {
  return std::same_as<In, accum<In>> ? 0 : scratch_for<accum<In>>(dims.n);
}
template <class In, class E>
void narrow(E const& exec, values_on<E, accum<In>> y, values_on<E, In> x) {
  if (static_cast<void const*>(y.data) == x.data) return;
  exec.for_each_index(x.capacity, saturate<In, accum<In>>{y.data, x.data});
}

/// Sets x to `mean`, converted to In, and `mean` to the part of it that x cannot hold. This part is 0 where the mean is
/// NaN or infinite.
template <class In>
struct narrow_keeping {
  accum<In>* mean;
  In* x;
  double const* common;
  PITH_HD void operator()(std::uint64_t i) const {
    x[i] = saturated_cast<In>(mean[i], ext::largest_mean<In>(common));
    mean[i] = is_finite(mean[i]) ? mean[i] - element_cast<accum<In>>(x[i]) : 0;
  }
};

/// Rounds values to In, in place. Finite values beyond the range of In become its largest finite value.
template <class In>
struct round_to {
  accum<In>* values;
  double const* common;
  PITH_HD void operator()(std::uint64_t i) const {
    values[i] = element_cast<accum<In>>(saturated_cast<In>(values[i], ext::largest_mean<In>(common)));
  }
};

}}}  // namespace pith::PITH_ABI::detail
