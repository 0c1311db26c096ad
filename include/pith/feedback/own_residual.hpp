// pith/feedback/own_residual.hpp — what a rank's own payload lacks of its gradient is added to its next one.
#pragma once

#include <pith/feedback/residual.hpp>

#include <string>

namespace pith::inline v0 {

/// e = p - sent, sent being this rank's part of the mean. `residual` is the same, and faster, where a codec knows that
/// part at once; power_sgd can tell it, P (M^T P)^T, for one more product.
///
///   requires    a codec that can tell a rank's own part
///   state       what residual keeps
///   reference   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019, algorithm 2
class own_residual : public residual {
 public:
  static constexpr feedback_on updates_on = feedback_on::own;

  using residual::residual;

  std::string name() const { return named("own_residual"); }
  bool has_source() const { return false; }
};

static_assert(feedback<own_residual, float, archetype>);

}  // namespace pith::inline v0
