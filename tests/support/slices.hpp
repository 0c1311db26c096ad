// tests/support/slices.hpp — tensors whose slices have something in common, and bases made of them.
#pragma once

#include <pith/vector_quantize/pca_basis.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/vectors.hpp"

namespace support {

/// Tensor `t` of n elements: `rank` fixed directions of `slice` elements with different weights per slice, a fixed
/// mean, and noise.
inline std::vector<double> correlated(std::size_t n, std::size_t slice, std::size_t rank, std::uint64_t t,
                                      double noise = 0.1, std::uint64_t directions = 700) {
  auto const direction = normal_vector(rank * slice, directions);
  auto const weight = normal_vector((n / slice + 1) * rank, 900 + t);
  auto const own = normal_vector(n, 5000 + t), mean = normal_vector(n, directions + 1);
  auto x = std::vector<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = noise * own[i] + mean[i] / 2;
    for (std::size_t k = 0; k < rank; ++k) x[i] += weight[i / slice * rank + k] * direction[k * slice + i % slice];
  }
  return x;
}

/// `count` such tensors, without reordering.
inline pith::slice_samples<double> correlated_samples(std::size_t n, std::size_t slice, std::size_t rank,
                                                      std::size_t count, double noise = 0.1,
                                                      pith::sampled which = pith::sampled::all_slices) {
  auto samples = pith::slice_samples<double>(n, slice, {}, which);
  for (std::size_t t = 0; t < count; ++t) samples.add(pith::span<double const>(correlated(n, slice, rank, t, noise)));
  return samples;
}

/// U U^T (x - mean) + mean, slice by slice: the method as an oracle, in double.
inline std::vector<double> projected(pith::pca_basis const& basis, std::vector<double> const& x) {
  auto const size = basis.slice(), padded = basis.slices(x.size()) * size;
  auto const& order = basis.order();
  auto y = x;
  for (std::size_t first = 0; first < padded; first += size) {
    auto const* const mean = basis.mean().data() + first % basis.mean().size();
    auto centred = std::vector<double>(size), sum = std::vector<double>(mean, mean + size);
    for (std::size_t j = 0; j < size; ++j) centred[j] = (first + j < x.size() ? x[order(first + j)] : 0) - mean[j];
    for (std::size_t k = 0; k < basis.components(); ++k) {
      auto const* const u = basis.vectors().data() + k * size;
      double z = 0;
      for (std::size_t j = 0; j < size; ++j) z += u[j] * centred[j];
      for (std::size_t j = 0; j < size; ++j) sum[j] += z * u[j];
    }
    for (std::size_t j = 0; j < size && first + j < x.size(); ++j) y[order(first + j)] = sum[j];
  }
  return y;
}

}  // namespace support
