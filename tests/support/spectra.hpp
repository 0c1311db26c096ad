// tests/support/spectra.hpp — checks of a solver's eigenvalues and eigenvectors.
#pragma once

#include <pith/vector_quantize/eigen_solver.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "support/vectors.hpp"

namespace support {

inline double norm(std::vector<double> const& a) { return std::sqrt(square(a)); }

inline std::vector<double> symmetric(std::size_t n, std::uint64_t seed) {
  auto a = normal_vector(n * n, seed);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) a[i * n + j] = a[j * n + i];
  }
  return a;
}

template <pith::eigen_solver Solver>
pith::spectrum whole_spectrum(Solver const& solver, std::vector<double> const& a, std::size_t n) {
  return solver(a, n, [](auto const& values) { return values.size(); });
}

/// |A v - value v| of the worst pair, and the worst entry of V V^T - 1.
inline void check_spectrum(std::vector<double> const& a, std::size_t n, pith::spectrum const& of) {
  REQUIRE(of.values.size() == n);
  REQUIRE(of.vectors.size() == n * n);
  CHECK(std::ranges::is_sorted(of.values, std::ranges::greater()));
  // A solver is exact for a matrix that differs by a few n roundings of its norm: 10 here.
  auto const u = 10 * static_cast<double>(n) * 0x1p-53;
  for (std::size_t k = 0; k < n; ++k) {
    auto const* const v = of.vectors.data() + k * n;
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(std::abs(pith::detail::dot(a.data() + i * n, v, n) - of.values[k] * v[i]) <= u * norm(a));
      auto const expected = i == k ? 1.0 : 0.0;
      CHECK(std::abs(pith::detail::dot(of.vectors.data() + i * n, v, n) - expected) <= u);
    }
  }
}

/// All sizes; matrices with equal eigenvalues, of zeros, of low rank, graded and flat.
template <pith::eigen_solver Solver>
void solves(Solver const& solver) {
  for (std::size_t n = 0; n <= 12; ++n)
    check_spectrum(symmetric(n, 300 + n), n, whole_spectrum(solver, symmetric(n, 300 + n), n));
  check_spectrum(symmetric(67, 1), 67, whole_spectrum(solver, symmetric(67, 1), 67));
  auto identity = std::vector<double>(49), zero = identity, one = identity, graded = identity, flat = identity;
  for (std::size_t i = 0; i < 7; ++i) {
    identity[8 * i] = 1;
    graded[8 * i] = std::pow(10.0, -4.0 * static_cast<double>(i));
    for (std::size_t j = 0; j < 7; ++j) one[7 * i + j] = 2;
    if (i > 0) flat[8 * i - 1] = flat[8 * i - 7] = 1;
  }
  for (auto const& a : {identity, zero, one, graded, flat}) check_spectrum(a, 7, whole_spectrum(solver, a, 7));
  CHECK(whole_spectrum(solver, one, 7).values[0] == doctest::Approx(14).epsilon(1e-14));
}

/// The requested number of eigenvectors, given the eigenvalues.
template <pith::eigen_solver Solver>
void counts(Solver const& solver) {
  auto const a = symmetric(20, 6);
  auto const all = whole_spectrum(solver, a, 20);
  auto const few = solver(a, 20, [&](auto const& values) {
    CHECK(values == all.values);
    return std::size_t{3};
  });
  CHECK(few.values == all.values);
  CHECK(few.vectors == std::vector<double>(all.vectors.begin(), all.vectors.begin() + 60));
  CHECK(solver(a, 20, [](auto const&) { return std::size_t{21}; }).vectors == all.vectors);
  CHECK(solver(a, 20, [](auto const&) { return std::size_t{0}; }).vectors.empty());
}

}  // namespace support
