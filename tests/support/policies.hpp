// tests/support/policies.hpp — feedback policies with codecs that suit them, for tests that compare executors.
#pragma once

#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include "../examples/own/clamped_residual.hpp"

namespace support {

/// Calls f(codec) with each feedback policy around signs. Norms are those of floats, whose squares are exact.
template <class F>
void with_policies(F const& f) {
  using pith::error_feedback, pith::scaled_sign, pith::clipping;
  f(error_feedback(scaled_sign(), pith::residual<pith::bfloat16>()));
  f(error_feedback(scaled_sign(), pith::ef_sign(0.1)));
  f(error_feedback(scaled_sign(), pith::mean_residual(0.9, 0.5)));
  f(error_feedback(scaled_sign(), pith::signum_momentum()));
  f(error_feedback(scaled_sign(), pith::momentum_correction(0.9, {.masks = false})));
  f(error_feedback(scaled_sign(), pith::momentum_correction(0.9, {.nesterov = true, .clip = clipping::norm(1)})));
  f(error_feedback(scaled_sign(), pith::ef21(0.1)));
  f(error_feedback(scaled_sign(), pith::two_sided(scaled_sign(1000))));
  f(error_feedback(scaled_sign(), clamped_residual(0.5)));
}

}  // namespace support
