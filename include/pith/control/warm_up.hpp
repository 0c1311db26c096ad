// pith/control/warm_up.hpp — a controller whose density decays to its final value over the first epochs.
#pragma once

#include <pith/control/rate_controller.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <string>

namespace pith { inline namespace PITH_ABI {

/// In epoch e = 1, 2, ... the rate is max(fall^e, density). An epoch has `steps` steps. With the default `fall` and a
/// density of 0.001, sparsifiers drop 75, 93.75, 98.4, 99.6 and 99.9 % of the elements in the first five epochs.
///
///   requires    0 < density <= 1, steps >= 1, 0 < fall < 1 (std::invalid_argument)
///   state       none, since the rate is a function of the step number. The first step has number 1
///   reference   Lin, Han, Mao, Wang and Dally, Deep Gradient Compression, ICLR 2018, section 3.3
class warm_up {
 public:
  warm_up(double density, std::uint64_t steps, double fall = 0.25) : density_(density), fall_(fall), steps_(steps) {
    detail::require(0 < density && density <= 1, "warm_up: density must be in (0, 1], got ", density);
    detail::require(steps >= 1, "warm_up: steps must be at least 1, got ", steps);
    detail::require(0 < fall && fall < 1, "warm_up: fall must be in (0, 1), got ", fall);
  }

  std::string name() const {
    return detail::text("warm_up(", detail::shortest(density_), ",", steps_, ",", detail::shortest(fall_), ")");
  }

  void observe(step_report const&) {}
  double decide(std::uint64_t step, std::uint32_t) const {
    auto rate = fall_;
    for (auto left = step == 0 ? 0 : (step - 1) / steps_; left > 0 && rate > density_; --left) rate *= fall_;
    return std::max(rate, density_);
  }

  std::vector<std::byte> save() const { return {}; }
  void load(span<std::byte const> saved) {
    detail::require(saved.empty(), "warm_up::load: the state must have 0 bytes, got ", saved.size());
  }

 private:
  double density_, fall_;
  std::uint64_t steps_;
};

static_assert(rate_controller<warm_up>);

}}  // namespace pith::PITH_ABI
