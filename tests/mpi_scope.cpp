// tests/mpi_scope.cpp — keeps MPI up from before main until after it.
#include <mpi.h>

namespace {

#ifdef PITH_TEST_FUNNELED
constexpr int threads = MPI_THREAD_FUNNELED;
#else
constexpr int threads = MPI_THREAD_MULTIPLE;
#endif

struct mpi_scope {
  mpi_scope() {
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(nullptr, nullptr, threads, &provided);
  }
  ~mpi_scope() { MPI_Finalize(); }
} const scope;

}  // namespace
