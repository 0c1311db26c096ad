// cmake/runtime/mpi.cpp — compiles the MPI communicator.
#include <pith/runtime_mpi.h>
#include <pith/comm/mpi.hpp>
#include <pith/runtime/mpi.hpp>
#include "c_calls.hpp"

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace runtime {

any_communicator mpi(MPI_Comm comm, timeout_duration timeout) {
  return any_communicator::owning([&] { return mpi_communicator(comm, {.timeout = timeout}); });
}

extern "C" int pith_communicator_make_mpi(std::uint32_t interface_version, MPI_Comm comm, double timeout_seconds,
                                          pith_communicator** made) {
  return make_communicator("pith_communicator_make_mpi", PITH_MPI_INTERFACE, interface_version, made,
                           [&] { return mpi(comm, timeout_duration(timeout_seconds)); });
}

}}}  // namespace pith::PITH_ABI::runtime
