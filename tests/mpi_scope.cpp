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
  ~mpi_scope() {
    int has_ended = 0;
    MPI_Finalized(&has_ended);
    if (!has_ended) MPI_Finalize();
  }
} const scope;

}  // namespace
