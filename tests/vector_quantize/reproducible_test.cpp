// tests/vector_quantize/reproducible_test.cpp — the same bytes with every instruction set and in any order of blocks.
#include <pith/vector_quantize/pca.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <doctest/doctest.h>

#include <cstddef>

#include "support/reproducible.hpp"
#include "support/slices.hpp"

using namespace support;

TEST_CASE_TEMPLATE("slices along a basis have the same bytes everywhere", In, float, double, pith::half,
                   pith::bfloat16) {
  auto const kernel = pith::conv_shape{32, 20, 3, 3};
  for (auto const& order : {pith::slice_order(), kernel.order()}) {
    for (std::size_t const slice : {640u, 77u}) {
      auto samples = pith::slice_samples<double>(kernel.n(), slice, order);
      for (std::size_t t = 0; t < 4; ++t) samples.add(pith::span<double const>(correlated(kernel.n(), slice, 4, t)));
      is_reproducible<In>(pith::pca(pith::pca_basis::fit(samples, {.components = 11})), {kernel.n()});
    }
  }
}
