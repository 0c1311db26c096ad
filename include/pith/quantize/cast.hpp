// pith/quantize/cast.hpp — a cast to a narrower element type.
#pragma once

#include <pith/codec/capability.hpp>
#include <pith/codec/detail/rank_sum.hpp>
#include <pith/codec/stage.hpp>
#include <pith/core/detail/convert.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// Converts every value to the type `T`. Rounds to nearest, ties to even.
///
///   emits       n values of T; no side information
///   requires    values in T's normal range, because delta does not hold for other values. Smaller values lose digits,
///               and larger values become infinite
///   errors      for half and bfloat16, a mean over ranks adds the converted values in float, and is rounded once
///   properties  contractive with delta = 1 - 2^-22 (half), 1 - 2^-16 (bfloat16), 1 - 2^-48 (float); summable;
///               reproducible
template <real T>
class cast : public codec_base {
 public:
  using facets = ext::facets<ext::contractive, ext::ranks>;

  template <class In>
  using output = T;

  static constexpr codec_traits traits = {.reproducible = true, .sums = sum_form::decode};

  std::string name() const { return detail::text("cast<", element_name<T>(), ">"); }
  double delta(shape const&) const { return 1 - unit_roundoff() * unit_roundoff(); }

  template <real In, executor E>
  void encode(context<In, E> const& cx, values_on<E, In const> x, encoded_on<E, T> y) const {
    cx.exec.for_each_index(x.capacity, detail::convert<T, In>{x.data, y.values.data});
  }
  template <real In, executor E>
  void decode(context<In, E> const& cx, encoded_on<E, T const> y, values_on<E, In> x) const {
    cx.exec.for_each_index(x.capacity, detail::saturate<In, T>{y.values.data, x.data});
  }
  /// Sets x to factor times the sum of the ranks' decoded values, added in rank order, in one pass.
  template <real In, executor E>
  void decode_ranks(context<In, E> const& cx, gathered_on<E, T> in, accum<In> factor, values_on<E, In> x) const {
    detail::sum_ranks(cx.exec, in.values.data, in.stride, in.ranks, factor, x.data, cx.dims.n);
  }

 private:
  /// The largest relative error of a normal value.
  static constexpr double unit_roundoff() {
    if constexpr (std::same_as<T, half>) return 0x1p-11;
    if constexpr (std::same_as<T, bfloat16>) return 0x1p-8;
    if constexpr (std::same_as<T, float>) return 0x1p-24;
    return 0x1p-53;
  }
};

static_assert(stage<cast<half>, float, archetype> && !promises_of<cast<half>>.unbiased);

}}  // namespace pith::PITH_ABI
