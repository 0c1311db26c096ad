// tests/vector_quantize/eigen_solver_test.cpp — eigenvalues and eigenvectors of symmetric matrices.
#include <pith/vector_quantize/eigen_solver.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/jacobi.hpp"
#include "support/spectra.hpp"

using namespace support;
using pith::householder_qr;

TEST_CASE("a worked example") {
  auto const of = whole_spectrum(householder_qr(), {2, 1, 1, 2}, 2);
  CHECK(of.values[0] == doctest::Approx(3).epsilon(1e-15));
  CHECK(of.values[1] == doctest::Approx(1).epsilon(1e-15));
  CHECK(std::abs(of.vectors[0]) == doctest::Approx(std::sqrt(0.5)).epsilon(1e-15));
  CHECK(of.vectors[0] == doctest::Approx(of.vectors[1]).epsilon(1e-15));
  CHECK(of.vectors[2] == doctest::Approx(-of.vectors[3]).epsilon(1e-15));
}

TEST_CASE("matrices of all sizes have their vectors, in order; so have equal eigenvalues, zeros and low rank") {
  solves(householder_qr());
}

TEST_CASE("the spectrum is that of Jacobi's rotations, whatever the scale") {
  for (double const scale : {1e-100, 1.0, 1e100}) {
    auto a = symmetric(40, 5);
    for (auto& v : a) v *= scale;
    auto const expected = jacobi_eigenvalues(a, 40);
    auto const of = whole_spectrum(householder_qr(), a, 40);
    for (std::size_t k = 0; k < 40; ++k) CHECK(std::abs(of.values[k] - expected[k]) <= 40 * 20 * 0x1p-53 * norm(a));
  }
}

TEST_CASE("a solver returns as many eigenvectors as its callback requests") { counts(householder_qr()); }

TEST_CASE("small elements beside the diagonal count, and squares of small elements do not underflow") {
  // The matrix has rank 1: the products of the entries of (1, 1, 2^-30).
  auto const e = 0x1p-30;
  auto const one = whole_spectrum(householder_qr(), {1, 1, e, 1, 1, e, e, e, e * e}, 3);
  CHECK(std::abs(one.values[1]) <= 3 * 20 * 0x1p-53 * 2);
  CHECK(std::abs(one.values[2]) <= 3 * 20 * 0x1p-53 * 2);
  CHECK(std::abs(one.vectors[2] / one.vectors[0] - e) <= 20 * 0x1p-53);
  auto const tiny = 1e-171;
  auto const all = whole_spectrum(householder_qr(), {1, 0, 0, 0, 0, 1, tiny, tiny, 0, tiny, 1, 0, 0, tiny, 0, 1}, 4);
  for (auto const v : all.vectors) CHECK(std::isfinite(v));
}
