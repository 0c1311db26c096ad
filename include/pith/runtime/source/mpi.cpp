// pith/runtime/source/mpi.cpp — compiles the MPI communicator.
#include <pith/comm/mpi.hpp>
#include <pith/runtime/mpi.hpp>

namespace pith::inline PITH_ABI::runtime {

any_communicator mpi(MPI_Comm comm, timeout_duration timeout) {
  return any_communicator::owning([&] { return mpi_communicator(comm, {.timeout = timeout}); });
}

}  // namespace pith::inline PITH_ABI::runtime
