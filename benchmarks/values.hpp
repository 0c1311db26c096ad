// benchmarks/values.hpp — input values, and the error of decoded ones.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/shape.hpp>
#include <pith/core/span.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace bench {

/// 2^log2n elements as a nearly square matrix.
inline pith::shape matrix_of(unsigned log2n) { return {std::uint64_t{1} << log2n, std::uint64_t{1} << log2n / 2}; }

/// Normal values from a fixed seed.
template <pith::real In>
std::vector<In> normal_values(std::size_t n) {
  auto random = std::mt19937(1);
  auto draw = std::normal_distribution<float>();
  auto x = std::vector<In>(n);
  for (auto& v : x) v = pith::element_cast<In>(draw(random));
  return x;
}

/// |y - x|^2 / |x|^2.
template <pith::real In>
double relative_error(pith::span<In const> x, pith::span<In const> y) {
  double error = 0, energy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const value = pith::element_cast<double>(x[i]);
    error += std::pow(pith::element_cast<double>(y[i]) - value, 2);
    energy += std::pow(value, 2);
  }
  return error / energy;
}

}  // namespace bench
