// tests/vector_quantize/eigen3_solver_test.cpp — Eigen's eigenvectors in place of our own.
#include <pith/vector_quantize/eigen3_solver.hpp>
#include <pith/vector_quantize/pca_basis.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/slices.hpp"
#include "support/spectra.hpp"

using namespace support;
using pith::eigen3_solver;

TEST_CASE("matrices of all sizes have their vectors, in order; so have equal eigenvalues, zeros and low rank") {
  solves(eigen3_solver());
}

TEST_CASE("a solver returns as many eigenvectors as its callback requests") { counts(eigen3_solver()); }

TEST_CASE("a basis is the same one but for rounding, by either route") {
  for (std::size_t const count : {3u, 12u}) {  // 15 samples of 24 elements, and 60
    auto const samples = correlated_samples(120, 24, 4, count);
    auto const ours = pith::pca_basis::fit(samples, {.components = 4});
    auto const theirs = pith::pca_basis::fit(samples, {.components = 4}, eigen3_solver());
    REQUIRE(theirs.components() == 4);
    CHECK(theirs.mean() == ours.mean());
    // Values are off by some 60 roundings of the largest; vectors by that over the gaps between them, which are above a
    // hundredth of it here.
    auto const off = 2 * 60 * 10 * 0x1p-53;
    auto const most = ours.eigenvalues()[0];
    for (std::size_t k = 0; k < 4; ++k) {
      CHECK(std::abs(theirs.eigenvalues()[k] - ours.eigenvalues()[k]) <= off * most);
      CHECK(ours.eigenvalues()[k] - ours.eigenvalues()[k + 1] >= 0.01 * most);
    }
    for (std::size_t i = 0; i < ours.vectors().size(); ++i)
      CHECK(std::abs(theirs.vectors()[i] - ours.vectors()[i]) <= off / 0.01);
  }
}
