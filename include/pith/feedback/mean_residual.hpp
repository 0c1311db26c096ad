// pith/feedback/mean_residual.hpp — what the mean of all ranks lacks of a rank's gradient is added to its next one.
#pragma once

#include <pith/feedback/residual.hpp>

#include <string>

namespace pith::inline v0 {

/// e = p - mean, the mean being what all ranks receive. Summed over the ranks it is what they did not send, as with
/// `residual`; a rank's own e holds also by how much it differs from the others.
///
///   state       what residual keeps
///   reference   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019, as released; power_sgd's residual is of this
///               kind
class mean_residual : public residual {
 public:
  static constexpr feedback_on updates_on = feedback_on::mean;

  using residual::residual;

  std::string name() const { return named("mean_residual"); }
  bool has_source() const { return false; }
};

static_assert(feedback<mean_residual, float, archetype>);

}  // namespace pith::inline v0
