// tests/device/quantizers.hpp — cases of scalar quantizers: of small, large and no buckets.
#pragma once

#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/eden.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/mx.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/nvfp4.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/stochastic_cast.hpp>
#include <pith/quantize/trits.hpp>
#include <pith/quantize/two_magnitudes.hpp>

#include "../examples/own/nearest4.hpp"

#include <cstdint>

namespace device {

template <class F>
void quantizers(F& f) {
  // One block, several, and several tiles of a large bucket.
  for (std::uint64_t const n : {1u, 2047u, 45'003u}) {
    f.execute(pith::identity(), {n});
    f.execute(pith::cast<pith::half>(), {n});
    f.execute(pith::cast<pith::bfloat16>(), {n});
    f.execute(pith::stochastic_cast<pith::bfloat16>(), {n});
    f.execute(pith::natural<8>(), {n});
    f.execute(pith::natural<9>(), {n});
    f.execute(pith::block_int<8>(), {n});
    f.execute(pith::block_int<3>(20'000), {n});
    f.execute(pith::block_int<2>(32, pith::options::clip), {n});
    f.execute(pith::mxfp8(), {n});
    f.execute(pith::mxfp8(pith::fp8_format::e5m2, pith::mx_scale::ceil), {n});
    f.execute(pith::mxfp6(), {n});
    f.execute(pith::mxfp4(), {n});
    f.execute(pith::mxint8(), {n});
    f.execute(pith::nvfp4(), {n});
    f.execute(pith::two_magnitudes(), {n});
    f.execute(pith::nvfp4(pith::options::four_or_six), {n});
    f.execute(pith::eden<4>(), {n});
    f.execute(pith::eden<1>(64, pith::scaling::unbiased), {n});
    f.execute(pith::eight_bit(), {n});
    f.execute(pith::eight_bit(128, pith::snap::floor), {n});
    f.execute(pith::qsgd<8>(127, 128, pith::norm::max), {n});
    f.execute(pith::qsgd<3>(3, 20'000, pith::norm::max), {n});
    f.execute_inexact(pith::qsgd<4>(5, 24), {n});
    f.execute_inexact(pith::error_feedback(pith::qsgd<8>()), {n});
    f.execute_inexact(pith::error_feedback(nearest4()), {n});
  }
}

}  // namespace device
