// tests/device/policies.hpp — cases of feedback policies around signs, which all that can go wrong goes through.
#pragma once

#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/loco.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include "../examples/own/clamped_residual.hpp"

#include <cstdint>

namespace device {

template <class F>
void policies(F& f) {
  using pith::error_feedback, pith::scaled_sign, pith::clipping;
  for (std::uint64_t const n : {1u, 20'011u}) {
    f.exchange(error_feedback(scaled_sign(), pith::residual(0.9, 0.5)), {n});
    f.exchange(error_feedback(scaled_sign(), pith::residual<pith::bfloat16>(0.9, 0.5)), {n});
    f.exchange(error_feedback(scaled_sign(), pith::own_residual()), {n});
    f.exchange(error_feedback(pith::block_int<4>(), pith::loco(0.8, 2)), {n});
    f.exchange(error_feedback(scaled_sign(), pith::no_feedback()), {n});
    f.exchange(error_feedback(scaled_sign(), pith::ef_sign(0.1)), {n});
    f.exchange(error_feedback(scaled_sign(), pith::mean_residual(0.9, 0.5)), {n});
    f.exchange(error_feedback(scaled_sign(), pith::signum_momentum()), {n});
    f.exchange(error_feedback(scaled_sign(), pith::momentum_correction(0.9, {.masks = false})), {n});
    f.exchange(error_feedback(scaled_sign(), pith::ef21(0.1)), {n});
    f.exchange(error_feedback(scaled_sign(), pith::two_sided(scaled_sign(1000))), {n});
    f.exchange(error_feedback(scaled_sign(), clamped_residual(0.5)), {n});
  }
}

}  // namespace device
