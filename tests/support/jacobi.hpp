// tests/support/jacobi.hpp — eigenvalues by Jacobi's rotations: slow, and simple enough to be an oracle.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace support {

/// Eigenvalues in descending order, by ten sweeps over all pairs of rows.
inline std::vector<double> jacobi_eigenvalues(std::vector<double> a, std::size_t n) {
  auto const rotate = [&](std::size_t p, std::size_t q) {
    if (a[p * n + q] == 0) return;
    auto const angle = std::atan2(2 * a[p * n + q], a[q * n + q] - a[p * n + p]) / 2;
    auto const c = std::cos(angle), s = std::sin(angle);
    for (std::size_t k = 0; k < n; ++k) {
      auto const x = a[k * n + p], y = a[k * n + q];
      a[k * n + p] = c * x - s * y;
      a[k * n + q] = s * x + c * y;
    }
    for (std::size_t k = 0; k < n; ++k) {
      auto const x = a[p * n + k], y = a[q * n + k];
      a[p * n + k] = c * x - s * y;
      a[q * n + k] = s * x + c * y;
    }
  };
  for (int sweep = 0; sweep < 10; ++sweep) {
    for (std::size_t p = 0; p < n; ++p) {
      for (auto q = p + 1; q < n; ++q) rotate(p, q);
    }
  }
  auto values = std::vector<double>();
  for (std::size_t i = 0; i < n; ++i) values.push_back(a[i * n + i]);
  std::ranges::sort(values, std::ranges::greater());
  return values;
}

}  // namespace support
