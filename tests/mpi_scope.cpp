// tests/mpi_scope.cpp — keeps MPI up from before main until after it.
#include <mpi.h>

namespace {

struct mpi_scope {
  mpi_scope() { MPI_Init(nullptr, nullptr); }
  ~mpi_scope() { MPI_Finalize(); }
} const scope;

}  // namespace
