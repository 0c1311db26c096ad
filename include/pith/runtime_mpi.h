// pith/runtime_mpi.h — the MPI communicator of the C interface, in the library pith::runtime_mpi.
#pragma once

#include <pith/runtime.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The version of this header, and the size of an MPI_Comm, which differs between implementations of MPI.
#define PITH_MPI_INTERFACE (PITH_INTERFACE * 256u + (uint32_t)sizeof(MPI_Comm))
/// The default timeout of pith::mpi_communicator.
#define PITH_DEFAULT_TIMEOUT_SECONDS 1800.0

/// Makes a communicator on a duplicate of `comm`, as pith::mpi_communicator (pith/comm/mpi.hpp). All ranks call it, after
/// MPI_Init. `interface_version` is PITH_MPI_INTERFACE. A call that waits longer than the timeout returns
/// PITH_COMMUNICATION_ERROR: a rank is lost or stuck. pith_exchange_ready, and calls from a thread other than MPI's main
/// thread, need MPI_THREAD_SERIALIZED, or MPI_THREAD_MULTIPLE if other threads call MPI during a step. All steps must end
/// before MPI_Finalize.
int pith_communicator_make_mpi(uint32_t interface_version, MPI_Comm comm, double timeout_seconds,
                               pith_communicator** made);
/// The same, but all-gathers and all-to-alls swap data between pairs of ranks, and sums have the order of ranks. Over links
/// of up to 100 Mbit/s with short round trips, this is faster (docs/training.md).
int pith_communicator_make_mpi_pairwise(uint32_t interface_version, MPI_Comm comm, double timeout_seconds,
                                        pith_communicator** made);

#ifdef __cplusplus
}
#endif
