// pith/vector_quantize/eigen3_solver.hpp — eigenvalues and eigenvectors, computed by the library Eigen.
#pragma once

#include <pith/core/error.hpp>
#include <pith/vector_quantize/eigen_solver.hpp>

#include <Eigen/Core>
#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// An alternative to `householder_qr`: `pca_basis::fit(samples, options, eigen3_solver())`.
///
///   requires    the CMake target pith::eigen, and Eigen 3.3 or newer; a symmetric matrix of finite
///               numbers (std::runtime_error if the iteration does not converge)
///   complexity  about 9 n^3 flop and memory for two matrices, even if few eigenvectors are requested
///   errors      as householder_qr. Rounding depends on Eigen's version and on the instruction set. So one rank should
///               fit the basis and send the basis to the other ranks, as `gradiveq` does
struct eigen3_solver {
  spectrum operator()(std::vector<double> matrix, std::size_t n, vector_count const& count) const {
    auto of = spectrum();
    if (n == 0) return of;
    auto const size = static_cast<Eigen::Index>(n);
    auto const solved =
        Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(Eigen::Map<Eigen::MatrixXd const>(matrix.data(), size, size));
    if (solved.info() != Eigen::Success)
      throw std::runtime_error(
          detail::sentence("eigen3_solver: the eigenvalues of a ", n, " x ", n, " matrix did not converge"));
    auto const& values = solved.eigenvalues();
    auto const& vectors = solved.eigenvectors();
    for (auto k = size; k-- > 0;) of.values.push_back(values[k]);  // Eigen sorts in ascending order
    auto const kept = std::min(count(of.values), n);
    for (std::size_t k = 0; k < kept; ++k) {
      auto const* const vector = vectors.data() + (n - 1 - k) * n;
      of.vectors.insert(of.vectors.end(), vector, vector + n);
    }
    return of;
  }
};

static_assert(eigen_solver<eigen3_solver>);

}}  // namespace pith::PITH_ABI
