// examples/own/keep_half.hpp — a controller that moves the density to where half of the energy is kept.
#pragma once

#include <pith/control/rate_controller.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

/// Halves the density if half of the energy or more is kept, and doubles it otherwise.
class keep_half {
 public:
  using facets = pith::ext::facets<pith::ext::energies>;

  std::string name() const { return "keep_half"; }
  void observe(pith::step_report const& seen) {
    double all = 0, kept = 0;
    for (auto const& r : seen.tensors) {
      all += r.energy;
      kept += r.kept;
    }
    if (!std::isfinite(kept)) return;  // the report includes a NaN of any rank
    density_ = kept >= all / 2 ? std::max(density_ / 2, 1.0 / 1024) : std::min(density_ * 2, 1.0);
  }
  double decide(std::uint64_t, std::uint32_t) const { return density_; }
  pith::rate_list measures(std::uint64_t, std::uint32_t) const { return {density_}; }

  std::vector<std::byte> save() const { return pith::saved_bytes(&density_, 1); }
  void load(pith::span<std::byte const> saved) {
    auto const values = pith::loaded_values<double>("keep_half", saved);
    if (values.size() != 1) throw std::invalid_argument("keep_half: a state has one number");
    density_ = values[0];
  }

 private:
  double density_ = 1;
};
static_assert(pith::rate_controller<keep_half>);
