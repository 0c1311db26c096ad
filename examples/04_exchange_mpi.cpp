// examples/04_exchange_mpi.cpp — 03_exchange over MPI.
//
//   mpirun -n 4 ./04_exchange_mpi
//   step    0  |w - w*| = 166.67
//   step 1000  |w - w*| = 1.31
//   step 2000  |w - w*| = 0.83
//   1696 bytes gathered and 400 summed per step, not 40400
#include <pith/comm/mpi.hpp>

#include "exchange.hpp"

#include <cstdio>

int main(int argc, char** argv) {
  int provided = 0;  // gradient_exchange::ready starts a thread that calls MPI; all_reduce_mean does not
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED) {
    std::fprintf(stderr, "MPI must provide MPI_THREAD_SERIALIZED\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  {
    auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
    train(comm);
  }  // destroys the exchange and the communicator before MPI_Finalize
  MPI_Finalize();
}
