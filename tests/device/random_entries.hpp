// tests/device/random_entries.hpp — cases of random entries, and runs of elements as words of a codebook.
#pragma once

#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/random_blocks.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/vector_quantize/hypersphere_quantizer.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

#include <cstdint>

namespace device {

template <class F>
void random_entries(F& f) {
  using namespace pith::options;
  for (std::uint64_t const n : {1u, 2047u, 20'011u}) {
    f.execute(pith::random_k(0.1), {n});
    f.execute(pith::random_k(0.25, unbiased), {n});
    f.execute(pith::random_k(0.1, none, own), {n});
    f.execute(pith::random_blocks(0.1, 24), {n});
    f.execute(pith::random_blocks(0.25, 64, unbiased), {n});
    f.execute(pith::error_feedback(pith::random_k(0.5)), {n});
    f.execute(pith::product_quantizer<5>(pith::codebook::directions(6, 32, 1)), {n});
    f.execute(pith::hypersphere_quantizer<6>(pith::codebook::directions(6, 32, 1)), {n});
  }
}

}  // namespace device
