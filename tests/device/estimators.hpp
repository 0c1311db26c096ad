// tests/device/estimators.hpp — cases of entries that reach an estimated threshold.
#pragma once

#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/redsync.hpp>
#include <pith/sparsify/redsync_mean.hpp>
#include <pith/sparsify/sidco.hpp>

#include <cstdint>

namespace device {

template <class F>
void estimators(F& f) {
  using namespace pith::options;
  for (std::uint64_t const n : {1u, 2047u, 20'011u}) {
    f.execute(pith::redsync(0.01), {n});
    f.execute(pith::redsync_mean(0.01), {n});
    f.execute(pith::sidco(0.01, exponential, 2), {n});
    f.execute(pith::sidco(0.01, pareto), {n});
    f.execute(pith::sidco(0.01, pith::options::gamma), {n});
    f.execute(pith::gaussian_k(0.01), {n});
  }
}

}  // namespace device
