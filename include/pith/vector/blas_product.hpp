// pith/vector/blas_product.hpp — slices times a basis by a BLAS library, on a host.
#pragma once

#include <pith/core/error.hpp>
#include <pith/vector/matrix_product.hpp>

#include <cblas.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith::inline v0 {

namespace detail {

/// C = A B^T, row-major.
inline void gemm(int m, int n, int k, float const* a, float const* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
}
inline void gemm(int m, int n, int k, double const* a, double const* b, double* c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
}

}  // namespace detail

/// The product of `pca` by a BLAS, for encoding whose bits may depend on the machine: `pca(basis, blas_product())`.
///
///   requires    pith::blas, a BLAS with cblas.h; slices of fewer than 2^31 elements (std::invalid_argument)
///   complexity  threads are the BLAS's own; no scratch; a copy of U in A
///   errors      sums in A: a component is off by at most K 2^-24 of sum |s| |u|, for doubles K 2^-53
struct blas_product {
  template <class A>
  using factor = A;

  template <class A>
  std::size_t scratch_bytes(product_shape const& size) const {
    detail::require(size.columns < 1u << 31, "blas_product: slices must have fewer than 2^31 elements, got ",
                    size.columns);
    return 0;
  }
  template <std::floating_point A, host_executor E>
  void multiply(E const&, product_shape const& size, A const* s, A const* u, A* z, workspace_on<E>&) const {
    auto const columns = static_cast<int>(size.columns), rank = static_cast<int>(size.rank);
    for (std::uint64_t row = 0; row < size.rows; row += most_rows) {
      auto const rows = static_cast<int>(std::min(size.rows - row, most_rows));
      detail::gemm(rows, rank, columns, s + row * size.columns, u, z + row * size.rank);
    }
  }

 private:
  static constexpr std::uint64_t most_rows = 1u << 30;  ///< per call, whose sizes are ints
};

static_assert(matrix_product<blas_product, float, archetype>);

}  // namespace pith::inline v0
