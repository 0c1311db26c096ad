// pith/comm/detail/mpi_device.hpp — whether MPI supports device memory.
#pragma once

#include <pith/core/error.hpp>

#include <mpi.h>

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Whether MPI reports CUDA support at run time. MPI 3.1 has no query for CUDA support, but Open MPI and MPICH each
/// have an extension with such a query.
inline bool is_cuda_aware() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() != 0;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int is_supported = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_supported) == MPI_SUCCESS && is_supported != 0;
#else
  return false;
#endif
}

inline void require_cuda_aware() {
  if (!is_cuda_aware()) {
    throw communication_error(
        "pith::mpi_communicator: device memory needs an MPI that reports CUDA support: use nccl_communicator or a host "
        "executor");
  }
}

}}}  // namespace pith::PITH_ABI::detail
