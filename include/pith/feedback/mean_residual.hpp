// pith/feedback/mean_residual.hpp — error feedback against the mean of all ranks.
#pragma once

#include <pith/feedback/residual.hpp>

#include <string>

namespace pith::inline v0 {

/// e = p - mean, with the mean that all ranks decode. Summed over the ranks, e is the total compression error, as with
/// `residual`. One rank's e also contains its difference from the other ranks.
///
///   state       as residual
///   reference   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019, as released; power_sgd's own residual is of
///               this kind
class mean_residual : public residual {
 public:
  static constexpr feedback_on updates_on = feedback_on::mean;

  using residual::residual;

  std::string name() const { return named("mean_residual"); }
  bool has_source() const { return false; }
};

static_assert(feedback<mean_residual, float, archetype>);

}  // namespace pith::inline v0
