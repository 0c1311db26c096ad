// pith/feedback/mean_residual.hpp — error feedback with the difference from the mean of all ranks.
#pragma once

#include <pith/feedback/residual.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// Sets e = p - mean, where p is the compensated gradient of the rank, and all ranks decode the same mean. The sum of e
/// over the ranks is the total compression error, as with `residual`. On one rank, e also contains the difference
/// between this rank's p and the mean of all ranks' p.
///
///   state       as residual
///   reference   Vogels, Karimireddy and Jaggi, PowerSGD, NeurIPS 2019. The released code uses this residual
class mean_residual : public residual<detail::accumulated, detail::chosen_weights> {
 public:
  using facets = ext::extended<residual::facets, ext::updates_on<feedback_on::mean>>;

  using residual::residual;

  std::string name() const { return named("mean_residual"); }
  bool has_source() const { return false; }
};

static_assert(feedback<mean_residual, float, archetype>);

}}  // namespace pith::PITH_ABI
