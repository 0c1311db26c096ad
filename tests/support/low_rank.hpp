// tests/support/low_rank.hpp — matrices of known singular values, and error bounds of low-rank steps.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/singular_value.hpp"
#include "support/vectors.hpp"

namespace support {

/// Normal vectors, orthonormalised in double.
inline std::vector<std::vector<double>> orthonormal_rows(std::size_t count, std::size_t n, std::uint64_t seed) {
  auto rows = std::vector<std::vector<double>>();
  for (std::size_t i = 0; i < count; ++i) {
    auto v = normal_vector(n, seed + i);
    for (int pass = 0; pass < 2; ++pass) {
      for (auto const& u : rows) {
        auto const along = dot(u, v);
        for (std::size_t j = 0; j < n; ++j) v[j] -= along * u[j];
      }
    }
    auto const length = std::sqrt(square(v));
    for (auto& w : v) w /= length;
    rows.push_back(v);
  }
  return rows;
}

/// A rows x columns matrix of singular values `sigma`.
inline std::vector<double> matrix_of(std::vector<double> const& sigma, std::size_t rows, std::size_t columns) {
  auto const u = orthonormal_rows(sigma.size(), rows, 100);
  auto const v = orthonormal_rows(sigma.size(), columns, 200);
  auto m = std::vector<double>(rows * columns);
  for (std::size_t s = 0; s < sigma.size(); ++s) {
    for (std::size_t i = 0; i < m.size(); ++i) m[i] += sigma[s] * u[s][i / columns] * v[s][i % columns];
  }
  return m;
}

/// The first `kept` columns of a thin matrix.
inline std::vector<double> first_columns(std::vector<double> const& q, std::size_t rank, std::size_t kept) {
  auto some = std::vector<double>();
  for (std::size_t i = 0; i < q.size(); ++i) {
    if (i % rank < kept) some.push_back(q[i]);
  }
  return some;
}

/// The error bound of a float step from Q (r columns) for M of rank r. With u = 2^-24: M = A A^+ M for A = M Q. The
/// columns of A have an error of u |A|, plus u |M| |Q| since M is rounded to float. The error in M is this times
/// |A^+ M| <= |M| / s, where s is the least singular value of A. Columns of P are rounded in both passes, with an error
/// of u in length and angle: 4 sqrt(r) u |M|. Q', M and the result: 4 u |M|.
inline double one_step_error(std::vector<double> const& m, std::vector<double> const& q, std::size_t rank) {
  auto const a = product(m, q, q.size() / rank, rank);
  auto const magnified = (std::sqrt(square(a)) + std::sqrt(square(m) * square(q))) / min_singular_value(a, rank);
  return (magnified + 4 * std::sqrt(static_cast<double>(rank)) + 4) * 0x1p-24 * std::sqrt(square(m));
}

/// The start that the next exchange uses.
template <class Trial>
std::vector<double> warm_start(Trial& t) {
  auto const q = t.state().replicated().q.view();
  return widen(std::vector<float>(q.data(), q.data() + q.size()));
}

inline double distance(std::vector<float> const& y, std::vector<double> const& m) {
  return std::sqrt(square(minus(widen(y), m)));
}

}  // namespace support
