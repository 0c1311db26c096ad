// tests/support/codecs.hpp — every codec with a tensor that suits it, for tests that compare executors.
#pragma once

#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/eden.hpp>
#include <pith/quantize/eight_bit.hpp>
#include <pith/quantize/mx.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/nvfp4.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/stochastic_cast.hpp>
#include <pith/quantize/terngrad.hpp>
#include <pith/quantize/two_magnitudes.hpp>
#include <pith/sparsify/chunk_top_k.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/packed_indices.hpp>
#include <pith/sparsify/random_blocks.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>
#include <pith/vector_quantize/hypersphere_quantizer.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

namespace support {

/// Calls f(codec, dims) for scalar quantizers of small, large and no buckets, with and without feedback.
template <class F>
void with_quantizers(std::uint64_t n, F const& f) {
  using namespace pith::options;
  f(pith::cast<pith::half>(), pith::shape{n});
  f(pith::stochastic_cast<pith::bfloat16>(), pith::shape{n});
  f(pith::scaled_sign(), pith::shape{n});
  f(pith::scaled_sign(1000), pith::shape{n});
  f(pith::eight_bit(), pith::shape{n});
  f(pith::eight_bit(128, pith::snap::floor), pith::shape{n});
  f(pith::block_int<8>(), pith::shape{n});
  f(pith::block_int<3>(40000), pith::shape{n});
  f(pith::block_int<2>(32, clip), pith::shape{n});
  f(pith::mxfp8(), pith::shape{n});
  f(pith::mxfp6(), pith::shape{n});
  f(pith::mxfp4(), pith::shape{n});
  f(pith::mxint8(), pith::shape{n});
  f(pith::nvfp4(), pith::shape{n});
  f(pith::two_magnitudes(), pith::shape{n});
  f(pith::eden<4>(), pith::shape{n});
  f(pith::qsgd<8>(), pith::shape{n});
  f(pith::qsgd<4>(5, 24), pith::shape{n});
  f(pith::qsgd<3>(3, 40000, pith::norm::max), pith::shape{n});
  f(pith::sign(), pith::shape{n});
  f(pith::one_bit(), pith::shape{n});
  f(pith::one_bit(column), pith::shape{n / 7 * 7, 7});
  f(pith::terngrad(), pith::shape{n});
  f(pith::natural<8>(), pith::shape{n});
  f(pith::error_feedback(pith::scaled_sign()), pith::shape{n});
  f(pith::error_feedback(pith::qsgd<8>()), pith::shape{n});
  f(pith::hadamard() | pith::qsgd<8>(), pith::shape{n});
  f(pith::hadamard() | pith::scaled_sign(), pith::shape{n});
}

/// ... for one of each kind: without scales, with buckets, with one scale and feedback. For code that all quantizers
/// share, such as loading and storing elements.
template <class F>
void with_kinds_of_quantizers(std::uint64_t n, F const& f) {
  f(pith::cast<pith::half>(), pith::shape{n});
  f(pith::natural<9>(), pith::shape{n});
  f(pith::qsgd<8>(127, 128, pith::norm::max), pith::shape{n});
  f(pith::error_feedback(pith::scaled_sign()), pith::shape{n});
}

/// ... for sparsifiers and chains of them.
template <class F>
void with_sparsifiers(std::uint64_t n, F const& f) {
  using namespace pith::options;
  f(pith::top_k(0.01), pith::shape{n});
  f(pith::top_k(0.01, pith::packed_indices()), pith::shape{n});
  f(pith::chunk_top_k(5, 300), pith::shape{n});
  f(pith::threshold(1.5, 0.25), pith::shape{n});
  f(pith::redsync(0.02), pith::shape{n});
  f(pith::redsync_mean(0.02), pith::shape{n});
  f(pith::sidco(0.02, exponential, 3), pith::shape{n});
  f(pith::sidco(0.02, pith::options::gamma), pith::shape{n});
  f(pith::gaussian_k(0.02), pith::shape{n});
  f(pith::random_k(0.1), pith::shape{n});
  f(pith::random_k(0.25, unbiased), pith::shape{n});
  f(pith::random_k(0.1, none, own), pith::shape{n});
  f(pith::random_blocks(0.1, 24), pith::shape{n});
  f(pith::random_blocks(0.25, 64, unbiased), pith::shape{n});
  f(pith::random_k(0.5) | pith::qsgd<4>(), pith::shape{n});
  f(pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>()), pith::shape{n});
}

/// ... for quantizers of runs of elements.
template <class F>
void with_codebooks(std::uint64_t n, F const& f) {
  f(pith::product_quantizer<5>(pith::codebook::directions(6, 32, 1)), pith::shape{n});
  f(pith::hypersphere_quantizer<6>(pith::codebook::directions(6, 32, 1)), pith::shape{n});
}

/// ... for those that are reproducible: equal bytes on all executors, instruction sets and compilers.
template <class F>
void with_reproducible_codecs(std::uint64_t n, F const& f) {
  with_quantizers(n, f);
  with_sparsifiers(n, f);
  with_codebooks(n, f);
}

/// ... for all.
template <class F>
void with_codecs(std::uint64_t n, F const& f) {
  with_reproducible_codecs(n, f);
  f(pith::power_sgd(2), pith::shape{n / 250 * 250, 250});
  f(pith::error_feedback(pith::power_sgd(3)), pith::shape{n / 250 * 250, 250});
}

}  // namespace support
