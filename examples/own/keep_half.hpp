// examples/own/keep_half.hpp — a controller that chooses the smallest density that keeps half of the energy.
#pragma once

#include <pith/control/rate_controller.hpp>

#include <algorithm>
#include <cmath>

/// Halves the density if more than half of the energy is kept, and doubles it otherwise.
class keep_half {
 public:
  std::string name() const { return "keep_half"; }
  void observe(pith::step_report const& seen) {
    double all = 0, kept = 0;
    for (auto const& r : seen.tensors) all += r.energy, kept += r.kept;
    if (!std::isfinite(kept)) return;  // the report includes a NaN of any rank
    density_ = kept > all / 2 ? std::max(density_ / 2, 1.0 / 1024) : std::min(density_ * 2, 1.0);
  }
  double decide(std::uint64_t, std::uint32_t) const { return density_; }
  pith::rate_list measures(std::uint64_t, std::uint32_t) const { return {density_}; }

  std::vector<std::byte> save() const { return pith::saved_bytes(&density_, 1); }
  void load(pith::span<std::byte const> saved) { density_ = pith::loaded_values<double>("keep_half", saved).at(0); }

 private:
  double density_ = 1;
};
static_assert(pith::rate_controller<keep_half>);
