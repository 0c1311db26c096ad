// tests/device/chains.hpp — cases of stages in a row, and what goes around them.
#pragma once

#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>

#include "../examples/own/haar.hpp"

#include <cstdint>

namespace device {

template <class F>
void chains(F& f) {
  for (std::uint64_t const n : {1u, 2047u, 20'011u}) {
    f.execute_inexact(pith::hadamard() | pith::qsgd<8>(), {n});
    f.execute(pith::hadamard() | pith::scaled_sign(), {n});
    f.execute(haar() | pith::scaled_sign(), {n});
    f.execute(pith::random_k(0.5) | pith::qsgd<4>(7, 128, pith::norm::max), {n});
    f.execute(pith::error_feedback(pith::top_k(0.1) | pith::qsgd<8>(127, 128, pith::norm::max)), {n});
    f.execute(pith::damped(pith::qsgd<4>(7, 128, pith::norm::max)), {n});
    f.execute(pith::bypass(pith::error_feedback(pith::rated(pith::top_k(0.1)))), {n});
  }
}

}  // namespace device
