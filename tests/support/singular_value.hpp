// tests/support/singular_value.hpp — the least singular value of a thin matrix, by rotations of its columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace support {

/// Rotates columns i and j of a (n x rank, row-major) so that they are orthogonal.
inline void rotate(std::vector<double>& a, std::size_t rank, std::size_t i, std::size_t j) {
  double ii = 0, jj = 0, ij = 0;
  for (std::size_t r = 0; r < a.size(); r += rank) {
    ii += a[r + i] * a[r + i], jj += a[r + j] * a[r + j], ij += a[r + i] * a[r + j];
  }
  auto const angle = std::atan2(2 * ij, ii - jj) / 2;
  auto const c = std::cos(angle), s = std::sin(angle);
  for (std::size_t r = 0; r < a.size(); r += rank) {
    auto const x = a[r + i], y = a[r + j];
    a[r + i] = c * x + s * y, a[r + j] = c * y - s * x;
  }
}

/// The least singular value of an n x rank matrix, row-major. Thirty sweeps are more than enough.
inline double min_singular_value(std::vector<double> a, std::size_t rank) {
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (std::size_t i = 0; i < rank; ++i) {
      for (std::size_t j = i + 1; j < rank; ++j) rotate(a, rank, i, j);
    }
  }
  auto squares = std::vector<double>(rank);
  for (std::size_t k = 0; k < a.size(); ++k) squares[k % rank] += a[k] * a[k];
  return std::sqrt(*std::min_element(squares.begin(), squares.end()));
}

}  // namespace support
