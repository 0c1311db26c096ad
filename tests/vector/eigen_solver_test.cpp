// tests/vector/eigen_solver_test.cpp — eigenvalues and eigenvectors of symmetric matrices.
#include <pith/vector/eigen_solver.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/jacobi.hpp"
#include "support/vectors.hpp"

using namespace support;
using pith::householder_qr;
using pith::spectrum;

namespace {

spectrum whole_spectrum(std::vector<double> const& a, std::size_t n) {
  return householder_qr()(a, n, [](auto const& values) { return values.size(); });
}

double norm(std::vector<double> const& a) { return std::sqrt(square(a)); }

/// |A v - value v| of the worst pair, and the worst entry of V V^T - 1.
void check(std::vector<double> const& a, std::size_t n, spectrum const& of) {
  REQUIRE(of.values.size() == n);
  REQUIRE(of.vectors.size() == n * n);
  CHECK(std::ranges::is_sorted(of.values, std::ranges::greater()));
  // A solver is right for a matrix that is off by a few n roundings of its norm: 10 here.
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

std::vector<double> symmetric(std::size_t n, std::uint64_t seed) {
  auto a = normal_vector(n * n, seed);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) a[i * n + j] = a[j * n + i];
  }
  return a;
}

}  // namespace

TEST_CASE("a worked example") {
  auto const of = whole_spectrum({2, 1, 1, 2}, 2);
  CHECK(of.values[0] == doctest::Approx(3).epsilon(1e-15));
  CHECK(of.values[1] == doctest::Approx(1).epsilon(1e-15));
  CHECK(std::abs(of.vectors[0]) == doctest::Approx(std::sqrt(0.5)).epsilon(1e-15));
  CHECK(of.vectors[0] == doctest::Approx(of.vectors[1]).epsilon(1e-15));
  CHECK(of.vectors[2] == doctest::Approx(-of.vectors[3]).epsilon(1e-15));
}

TEST_CASE("matrices of all sizes have their vectors, in order") {
  for (std::size_t n = 0; n <= 12; ++n) check(symmetric(n, 300 + n), n, whole_spectrum(symmetric(n, 300 + n), n));
  check(symmetric(67, 1), 67, whole_spectrum(symmetric(67, 1), 67));
}

TEST_CASE("equal eigenvalues, zeros, diagonals and matrices of low rank") {
  auto identity = std::vector<double>(49), zero = identity, one = identity, graded = identity, flat = identity;
  for (std::size_t i = 0; i < 7; ++i) {
    identity[8 * i] = 1;
    graded[8 * i] = std::pow(10.0, -4.0 * static_cast<double>(i));
    for (std::size_t j = 0; j < 7; ++j) one[7 * i + j] = 2;
    if (i > 0) flat[8 * i - 1] = flat[8 * i - 7] = 1;
  }
  for (auto const& a : {identity, zero, one, graded, flat}) check(a, 7, whole_spectrum(a, 7));
  CHECK(whole_spectrum(one, 7).values[0] == doctest::Approx(14).epsilon(1e-14));
}

TEST_CASE("the spectrum is that of Jacobi's rotations, whatever the scale") {
  for (double const scale : {1e-100, 1.0, 1e100}) {
    auto a = symmetric(40, 5);
    for (auto& v : a) v *= scale;
    auto const expected = jacobi_eigenvalues(a, 40);
    auto const of = whole_spectrum(a, 40);
    for (std::size_t k = 0; k < 40; ++k) CHECK(std::abs(of.values[k] - expected[k]) <= 40 * 20 * 0x1p-53 * norm(a));
  }
}

TEST_CASE("as many vectors as are asked for, once the values are known") {
  auto const a = symmetric(20, 6);
  auto const all = whole_spectrum(a, 20);
  auto const few = householder_qr()(a, 20, [&](auto const& values) {
    CHECK(values == all.values);
    return std::size_t{3};
  });
  CHECK(few.values == all.values);
  CHECK(few.vectors == std::vector<double>(all.vectors.begin(), all.vectors.begin() + 60));
  CHECK(householder_qr()(a, 20, [](auto const&) { return std::size_t{21}; }).vectors == all.vectors);
  CHECK(householder_qr()(a, 20, [](auto const&) { return std::size_t{0}; }).vectors.empty());
}
