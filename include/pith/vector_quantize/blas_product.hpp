// pith/vector_quantize/blas_product.hpp — the product of slices and a basis, computed by a BLAS library on a host.
#pragma once

#include <pith/core/error.hpp>
#include <pith/vector_quantize/matrix_product.hpp>

#include <cblas.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Computes C = A B^T for row-major matrices.
inline void gemm(int m, int n, int k, float const* a, float const* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
}
inline void gemm(int m, int n, int k, double const* a, double const* b, double* c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, k, b, k, 0, c, n);
}

}  // namespace detail

/// A BLAS product for the encoder of `pca`: `pca(basis, blas_product())`. Rounding may depend on the machine, so
/// payloads may also depend on the machine.
///
///   requires    the CMake target pith::blas and a BLAS with cblas.h; slices with fewer than 2^31
///               elements (std::invalid_argument)
///   complexity  the BLAS library uses its own threads; no scratch memory; a copy of the basis with elements of type A
///   errors      sums are computed in A. For a slice s and a component u with K elements each, the error of the scalar
///               product of s and u is at most K 2^-24 (K 2^-53 for double) times the sum of all |s_i u_i|
struct blas_product {
  template <class A>
  using factor = A;

  template <class A>
  std::size_t scratch_bytes(product_shape const& size) const {
    detail::require(size.columns < 1u << 31, "blas_product: slices must have fewer than 2^31 elements, got ",
                    size.columns);
    return 0;
  }
  template <std::floating_point A, detail::host_executor E>
  void multiply(E const&, product_shape const& size, A const* s, A const* u, A* z, workspace_on<E>&) const {
    auto const columns = static_cast<int>(size.columns), rank = static_cast<int>(size.rank);
    for (std::uint64_t row = 0; row < size.rows; row += max_rows) {
      auto const rows = static_cast<int>(std::min(size.rows - row, max_rows));
      detail::gemm(rows, rank, columns, s + row * size.columns, u, z + row * size.rank);
    }
  }

 private:
  static constexpr std::uint64_t max_rows = 1u << 30;  ///< the most rows per BLAS call, because BLAS sizes are int
};

static_assert(matrix_product<blas_product, float, archetype>);

}}  // namespace pith::PITH_ABI
