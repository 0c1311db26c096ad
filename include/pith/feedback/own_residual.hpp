// pith/feedback/own_residual.hpp — error feedback with the difference from a rank's own share of the mean.
#pragma once

#include <pith/feedback/residual.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// Sets e = p - sent, where p is the compensated gradient, and `sent` is this rank's own share: the decoded value of
/// the rank's payload, scaled so that the mean of all ranks' shares is the decoded mean. If the share is available
/// before the exchange ends, `residual` gives the same result faster. power_sgd (lowrank/power_sgd.hpp) computes the
/// share as P (M^T P)^T, which takes one additional product.
///
///   requires    a codec that can return a rank's own share
///   state       as residual
///   reference   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019, algorithm 2
class own_residual : public residual<detail::accumulated, detail::chosen_weights> {
 public:
  using facets = ext::extended<residual::facets, ext::updates_on<feedback_on::own>>;

  using residual::residual;

  std::string name() const { return named("own_residual"); }
  bool has_source() const { return false; }
};

static_assert(feedback<own_residual, float, archetype>);

}}  // namespace pith::PITH_ABI
