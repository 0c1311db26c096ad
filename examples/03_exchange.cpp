// examples/03_exchange.cpp — gradient descent on four ranks with compressed gradients.
//
//   step    0  |w - w*| = 166.67
//   step 1000  |w - w*| = 1.31
//   step 2000  |w - w*| = 0.83
//   1696 bytes gathered and 400 summed per step, not 40400
//
// The ranks are threads; 04_exchange_mpi is the same program over MPI.
#include <pith/comm/threads.hpp>

#include "exchange.hpp"

int main() {
  pith::run_ranks(4, [](pith::thread_communicator comm) { train(comm); });
}
