// tests/device/selections.hpp — cases of the largest entries, found by one block and by many, from candidates and from all.
#pragma once

#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/chunk_top_k.hpp>
#include <pith/sparsify/packed_indices.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include "../examples/own/chunk_max.hpp"

#include <cstdint>

namespace device {

template <class F>
void selections(F& f) {
  // 20,011 entries are more than a block takes, except for few of float; those of 70,001 are.
  for (std::uint64_t const n : {1u, 31u, 2047u, 20'011u}) {
    f.execute(pith::top_k(0.1), {n});
    f.execute(pith::top_k(0.4), {n});
    f.execute(pith::top_k(0.1, pith::packed_indices()), {n});
    f.execute(pith::chunk_top_k(5, 300), {n});
    f.execute(pith::error_feedback(pith::chunk_top_k(64)), {n});
    f.execute(pith::threshold(1.5, 0.25), {n});
    f.execute(pith::threshold<pith::overflow::dense>(1.5, 0.1), {n});
    f.execute(pith::error_feedback(pith::top_k(0.1)), {n});
    f.execute(chunk_max(), {n});
    f.execute(pith::error_feedback(chunk_max()), {n});
  }
  f.execute(pith::top_k(0.01), {70'001});
}

}  // namespace device
