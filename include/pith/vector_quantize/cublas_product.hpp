// pith/vector_quantize/cublas_product.hpp — the product of slices and a basis, computed by cuBLAS on a CUDA stream.
#pragma once

#include <pith/core/error.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/vector_quantize/matrix_product.hpp>

#include <cublas_v2.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

inline void check_cublas(cublasStatus_t status, char const* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw cuda_error(sentence("cublas: ", call, ": ", cublasGetStatusString(status)));
}

/// Computes C = A B^T in row-major order, which is C^T = B A^T in cuBLAS's column-major order.
inline void gemm(cublasHandle_t handle, std::int64_t m, std::int64_t n, std::int64_t k, float const* a, float const* b,
                 float* c) {
  float const one = 1, zero = 0;
  check_cublas(cublasSgemm_64(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b, k, a, k, &zero, c, n), "cublasSgemm");
}
inline void gemm(cublasHandle_t handle, std::int64_t m, std::int64_t n, std::int64_t k, double const* a,
                 double const* b, double* c) {
  double const one = 1, zero = 0;
  check_cublas(cublasDgemm_64(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b, k, a, k, &zero, c, n), "cublasDgemm");
}

}  // namespace detail

/// A cuBLAS product for the encoder of `pca`: `pca(basis, cublas_product(handle))`. Rounding may differ from the
/// rounding on a host, so payloads may also differ.
///
///   owns        no resources. The cuBLAS handle must outlive the product, belong to the stream's device, and use
///               scalars in host memory. Only one thread at a time may use the handle
///   requires    the CMake target pith::cublas. A CUDA graph can capture the product if the handle has a
///               workspace (cublasSetWorkspace)
///   complexity  memory for a copy of the basis with elements of type A, and the memory of the handle
///   errors      sums are computed in A, with the handle's math mode; cuda_error if cuBLAS fails
class cublas_product {
 public:
  template <class A>
  using factor = A;

  explicit cublas_product(cublasHandle_t handle) : handle_(handle) {
    detail::require(handle != nullptr, "cublas_product: handle must not be null");
  }

  template <class A>
  std::size_t scratch_bytes(product_shape const&) const {
    return 0;
  }
  template <std::floating_point A>
  void multiply(cuda_executor const& exec, product_shape const& size, A const* s, A const* u, A* z,
                workspace_on<cuda_executor>&) const {
    if (size.rows == 0) return;
    auto const whole = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
    detail::check_cublas(cublasSetStream(handle_, exec.stream()), "cublasSetStream");
    detail::gemm(handle_, whole(size.rows), whole(size.rank), whole(size.columns), s, u, z);
  }

 private:
  cublasHandle_t handle_;
};

static_assert(matrix_product<cublas_product, float, cuda_executor>);

}}  // namespace pith::PITH_ABI
