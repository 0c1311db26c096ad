// pith/feedback/no_feedback.hpp — the feedback policy without memory.
#pragma once

#include <pith/core/detail/convert.hpp>
#include <pith/core/source.hpp>
#include <pith/feedback/feedback.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// Encodes the unchanged gradient. no_feedback is the baseline for other policies.
///
///   state       none
///   reference   GRACE's memory "none"
class no_feedback {
 public:
  using facets = ext::facets<ext::fused, ext::memoryless>;

  static constexpr bool is_reproducible = true;

  std::string name() const { return "no_feedback"; }

  static constexpr bool has_source() { return true; }
  template <real In, executor E>
  ext::plain_source<In> source(values_on<E, In const> g, no_state&) const {
    return {g.data};
  }

  template <real In, executor E>
  void compensate(context<In, E> const& cx, values_on<E, In const> g, values_on<E, accum<In>> p,
                  no_state const&) const {
    cx.exec.for_each_index(cx.dims.n, detail::convert<accum<In>, In>{g.data, p.data});
  }
  template <real In, executor E>
  void update(context<In, E> const&, values_on<E, accum<In> const>, values_on<E, accum<In> const>, no_state&) const {}
  template <executor E>
  void rescale(E const&, double, no_state&, no_state&) const {}
};

static_assert(feedback<no_feedback, float, archetype> && detail::memoryless<no_feedback>);

}}  // namespace pith::PITH_ABI
