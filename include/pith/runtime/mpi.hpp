// pith/runtime/mpi.hpp — the MPI communicator for compiled exchanges.
#pragma once

#include <pith/comm/any_communicator.hpp>
#include <pith/comm/timeout.hpp>

#include <mpi.h>

namespace pith { inline namespace PITH_ABI { namespace runtime {

/// Returns a pith::mpi_communicator on a duplicate of `comm`. The requirements and errors are those of
/// pith::mpi_communicator.
any_communicator mpi(MPI_Comm comm, timeout_duration timeout = default_timeout);
/// Returns a reproducible_sums<pairwise<mpi_communicator>> on a duplicate of `comm`: all-gathers and all-to-alls swap data
/// between pairs of ranks, and sums have the order of ranks. Over links of up to 100 Mbit/s with short round trips, this is
/// faster than mpi() (docs/training.md).
any_communicator mpi_pairwise(MPI_Comm comm, timeout_duration timeout = default_timeout);

}}}  // namespace pith::PITH_ABI::runtime
