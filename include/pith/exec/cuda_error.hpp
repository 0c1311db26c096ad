// pith/exec/cuda_error.hpp — errors of CUDA runtime calls.
#pragma once

#include <pith/core/error.hpp>

#include <cuda_runtime_api.h>

#include <stdexcept>

namespace pith { inline namespace v0 {  // a common type of all source files (core/error.hpp)

/// Thrown if a CUDA runtime call failed. The message contains the call.
struct cuda_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}}  // namespace pith::v0

namespace pith { inline namespace PITH_ABI {

/// If `status` is an error, resets CUDA's last error and throws cuda_error.
inline void check_cuda(cudaError_t status, char const* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw cuda_error(detail::sentence("cuda: ", call, ": ", cudaGetErrorString(status)));
}

}}  // namespace pith::PITH_ABI
