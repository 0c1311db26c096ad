// tests/device/sums.hpp — cases of the decoded sum of three payloads.
#pragma once

#include <pith/codec/chain.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <cstdint>

namespace device {

template <class F>
void sums(F& f) {
  using namespace pith::options;
  for (std::uint64_t const n : {1u, 2047u, 20'011u}) {
    f.sum(pith::qsgd<8>(127, 128, pith::norm::max), {n});
    f.sum(pith::qsgd<4>(7, 128, pith::norm::max), {n});
    f.sum(pith::scaled_sign(), {n});
    f.sum(pith::sign(), {n});
    f.sum(pith::natural<8>(), {n});
    f.sum(pith::top_k(0.4), {n});
    f.sum(pith::threshold(1.5, 0.25), {n});
    f.sum(pith::redsync_mean(0.01), {n});
    f.sum(pith::random_k(0.1, none, own), {n});
    f.sum(pith::top_k(0.1) | pith::qsgd<8>(127, 128, pith::norm::max), {n});
  }
}

}  // namespace device
