// tests/device/low_rank.hpp — cases of matrices of low rank.
#pragma once

#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/lowrank/power_sgd.hpp>

namespace device {

template <class F>
void low_rank(F& f) {
  f.execute(pith::power_sgd(2), {96 * 40, 96});
  f.execute(pith::power_sgd(3), {33 * 7, 7});
  f.exchange(pith::error_feedback(pith::power_sgd(3)), {96 * 40, 96});
  f.exchange(pith::error_feedback(pith::one_sided_power_sgd(3)), {96 * 40, 96});
}

}  // namespace device
