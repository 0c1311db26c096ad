// pith/feedback/no_feedback.hpp — what was not sent is lost.
#pragma once

#include <pith/core/convert.hpp>
#include <pith/core/source.hpp>
#include <pith/feedback/feedback.hpp>

#include <string>

namespace pith::inline v0 {

/// The gradient is encoded as it is: what other policies are compared with.
///
///   keeps    nothing
///   source   GRACE's memory "none"
class no_feedback {
 public:
  static constexpr bool is_reproducible = true;
  static constexpr bool is_forgetful = true;

  std::string name() const { return "no_feedback"; }

  bool has_source() const { return true; }
  template <real In, executor E>
  detail::plain_source<In> source(stream_on<E, In const> g, no_state&) const {
    return {g.data};
  }

  template <real In, executor E>
  void compensate(E const& exec, call const&, shape const& dims, stream_on<E, In const> g, stream_on<E, accum<In>> p,
                  no_state const&, workspace_on<E>&) const {
    exec.for_each_index(dims.n, detail::convert<accum<In>, In>{g.data, p.data});
  }
  template <std::floating_point A, executor E>
  void commit(E const&, call const&, shape const&, stream_on<E, A const>, stream_on<E, A const>, no_state&,
              workspace_on<E>&) const {}
  template <executor E>
  void rescale(E const&, double, no_state&, no_state&) const {}
};

static_assert(feedback<no_feedback, float, detail::archetype> && forgetful<no_feedback>);

}  // namespace pith::inline v0
