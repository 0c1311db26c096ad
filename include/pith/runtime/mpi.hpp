// pith/runtime/mpi.hpp — the MPI communicator for compiled exchanges.
#pragma once

#include <pith/comm/any_communicator.hpp>
#include <pith/comm/timeout.hpp>

#include <mpi.h>

namespace pith { inline namespace PITH_ABI { namespace runtime {

/// Returns a pith::mpi_communicator on a duplicate of `comm`. The requirements and errors are those of
/// pith::mpi_communicator.
any_communicator mpi(MPI_Comm comm, timeout_duration timeout = default_timeout);

}}}  // namespace pith::PITH_ABI::runtime
