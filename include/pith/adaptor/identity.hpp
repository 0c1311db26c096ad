// pith/adaptor/identity.hpp — transfer of unchanged values: the uncompressed baseline.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/detail/rank_sum.hpp>
#include <pith/codec/stage.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// A stage that emits every value unchanged.
///
///   emits       n values of In; no side information
///   errors      in a mean over N ranks, each rank divides its values by the smallest 2^k >= N, so that no sum
///               overflows. Floats below 2^(k - 126) and doubles below 2^(k - 1022) lose digits. Values of half and
///               bfloat16 are added in float without this division, and the mean is rounded once
///   properties  unbiased (omega 0), contractive (delta 1), summable, reproducible
class identity : public codec_base {
 public:
  using facets = ext::facets<ext::unbiased, ext::contractive, ext::bounded, ext::ranks>;

  template <class In>
  using output = In;

  static constexpr codec_traits traits = {
      .projection = true, .isometric = true, .reproducible = true, .sums = sum_form::encode};

  std::string name() const { return "identity"; }
  double omega(shape const&) const { return 0; }
  double delta(shape const&) const { return 1; }
  double error_bound(shape const&) const { return 0; }
  bool is_lossless(shape const&) const { return true; }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, In> y) const {
    cx.exec.copy(y.values.data, x.data, value_bytes<In>(x.capacity));
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, In const> y, values_on<E, In> x) const {
    cx.exec.copy(x.data, y.values.data, value_bytes<In>(x.capacity));
  }
  /// Sets x to factor times the sum of the ranks' decoded values, added in rank order, in one pass.
  template <real In, executor E>
  void decode_ranks(context<In, E> const& cx, gathered_on<E, In> in, accum<In> factor, values_on<E, In> x) const {
    detail::sum_ranks(cx.exec, in.values.data, in.stride, in.ranks, factor, x.data, cx.dims.n);
  }
};

static_assert(stage<identity, float, archetype>);

}}  // namespace pith::PITH_ABI
