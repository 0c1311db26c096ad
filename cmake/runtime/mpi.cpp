// cmake/runtime/mpi.cpp — compiles the MPI communicator.
#include <pith/runtime_mpi.h>
#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/runtime/mpi.hpp>
#include "c_calls.hpp"

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace runtime {

static_assert(default_timeout == timeout_duration(PITH_DEFAULT_TIMEOUT_SECONDS));

any_communicator mpi(MPI_Comm comm, timeout_duration timeout) {
  return any_communicator::owning([&] { return mpi_communicator(comm, {.timeout = timeout}); });
}
any_communicator mpi_pairwise(MPI_Comm comm, timeout_duration timeout) {
  using swaps = reproducible_sums<pairwise<mpi_communicator>>;
  return any_communicator::owning([&] { return swaps(comm, mpi_options{.timeout = timeout}); });
}

extern "C" int pith_communicator_make_mpi(std::uint32_t interface_version, MPI_Comm comm, double timeout_seconds,
                                          pith_communicator** made) {
  return make_communicator("pith_communicator_make_mpi", PITH_MPI_INTERFACE, interface_version, made,
                           [&] { return mpi(comm, timeout_duration(timeout_seconds)); });
}
extern "C" int pith_communicator_make_mpi_pairwise(std::uint32_t interface_version, MPI_Comm comm,
                                                   double timeout_seconds, pith_communicator** made) {
  return make_communicator("pith_communicator_make_mpi_pairwise", PITH_MPI_INTERFACE, interface_version, made,
                           [&] { return mpi_pairwise(comm, timeout_duration(timeout_seconds)); });
}

}}}  // namespace pith::PITH_ABI::runtime
