// tests/device/exchanges.hpp — cases of what a group of one receives of codecs that exchange for themselves.
#pragma once

#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/summed_terngrad.hpp>

#include <cstdint>

namespace device {

template <class F>
void exchanges(F& f) {
  for (std::uint64_t const n : {1u, 65u, 20'011u}) {
    f.exchange(pith::sign(pith::ties::zero), {n});
    f.exchange(pith::summed_sign(), {n});
    f.exchange_own(pith::summed_terngrad(), {n});
    f.exchange(pith::two_shot(pith::scaled_sign()), {n});
    f.exchange(pith::reduce_scatter(pith::scaled_sign()), {n});
    f.exchange(pith::error_feedback(pith::reduce_scatter(pith::qsgd<8>())), {n});
    f.exchange(pith::ring(pith::scaled_sign()), {n});
    f.exchange(pith::hierarchical(pith::sign(), pith::scaled_sign(), 1), {n});
    f.exchange(pith::ok_top_k(0.1), {n});
    f.exchange(pith::g_top_k(0.1), {n});
  }
}

}  // namespace device
