// tests/device/low_rank.hpp — cases of matrices of low rank.
#pragma once

#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/lowrank/power_sgd.hpp>

namespace device {

template <class F>
void low_rank(F& f) {
  f.execute(pith::power_sgd(2), {96 * 40, 96});
  f.execute(pith::power_sgd(3), {33 * 7, 7});
  f.execute(pith::power_sgd(5), {18 * 1100, 18});
  f.execute(pith::power_sgd(5, 1), {330 * 40, 330});
  f.execute(pith::power_sgd(18, 1), {60 * 70, 60});
  f.execute(pith::power_sgd(1, 1), {2 * 8200, 2});
  f.exchange(pith::error_feedback(pith::power_sgd(3)), {96 * 40, 96});
  f.exchange(pith::error_feedback(pith::power_sgd(4)), {9 * 1100, 9});
  f.exchange(pith::error_feedback(pith::one_sided_power_sgd(3)), {96 * 40, 96});
  auto const bfloat16 = pith::factor_format::bfloat16;
  f.exchange(pith::error_feedback(pith::power_sgd(3, 2, bfloat16)), {96 * 40, 96});
  f.exchange(pith::error_feedback(pith::one_sided_power_sgd(3, 2, bfloat16), pith::own_residual()), {96 * 40, 96});
}

}  // namespace device
