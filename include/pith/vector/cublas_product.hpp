// pith/vector/cublas_product.hpp — slices times a basis by cuBLAS, on a stream.
#pragma once

#include <pith/core/error.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/vector/matrix_product.hpp>

#include <cublas_v2.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith::inline v0 {

namespace detail {

inline void check_cublas(cublasStatus_t status, char const* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw cuda_error(sentence("cublas: ", call, ": ", cublasGetStatusString(status)));
}

/// C = A B^T row-major, which is C^T = B A^T in cuBLAS's column-major order.
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

/// The product of `pca` on a CUDA stream, for encoding whose bits may differ from a host's: `pca(basis,
/// cublas_product(handle))`.
///
///   owns        nothing: the handle, of the stream's device and with scalars on the host, must outlive it, and one
///               thread at a time may use it
///   requires    pith::cublas. A graph can capture it if the handle has a workspace (cublasSetWorkspace)
///   complexity  a copy of U in A, and the handle's own memory
///   errors      sums in A, by the handle's math mode; cuda_error if cuBLAS fails
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

}  // namespace pith::inline v0
