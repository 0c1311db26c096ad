// tests/device/slices.hpp — cases of slices along a basis, in order and as a convolution has them.
#pragma once

#include <pith/codec/chain.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <cstdint>

#include "support/bases.hpp"

namespace device {

template <class F>
void slices(F& f) {
  for (auto const& order : {pith::slice_order(), pith::conv_shape{6, 5, 3, 3}.order()}) {
    for (std::uint64_t const slice : {30u, 17u}) {
      auto const basis = support::basis_of(270, slice, order);
      f.execute(pith::pca(basis), {270});
      f.exchange_own(pith::pca(basis) | pith::summed_terngrad(), {270});
    }
  }
}

}  // namespace device
