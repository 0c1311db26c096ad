// tests/device/signs.hpp — cases of quantizers of one symbol or two signs.
#pragma once

#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/terngrad.hpp>
#include <pith/quantize/trits.hpp>
#include <pith/transform/hadamard.hpp>

#include <cstdint>

namespace device {

template <class F>
void signs(F& f) {
  using namespace pith::options;
  for (std::uint64_t const n : {7u, 2047u, 45'003u}) {
    f.execute(pith::sign(), {n});
    f.execute(pith::sign(pith::ties::zero), {n});
    f.execute(pith::scaled_sign(), {n});
    f.execute(pith::scaled_sign(1000), {n});
    f.execute(pith::scaled_sign(20'000), {n});
    f.execute(pith::one_bit(), {n});
    f.execute(pith::one_bit(row), {n / 7 * 7, 7});
    f.execute(pith::one_bit(column), {n / 7 * 7, 7});
    f.execute(pith::terngrad(unclipped), {n});
    f.execute_inexact(pith::terngrad(), {n});
    f.execute_inexact(pith::trits(pith::terngrad()), {n});
    f.execute(pith::error_feedback(pith::scaled_sign()), {n});
  }
}

}  // namespace device
