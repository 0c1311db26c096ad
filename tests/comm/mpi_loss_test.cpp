// tests/comm/mpi_loss_test.cpp — a rank ends in the middle of a job, and all others print their error.
#include <pith/comm/mpi.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

/// MPI_Finalize would wait for the rank that is gone.
[[noreturn]] void leave() {
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace

TEST_CASE("a rank that is lost is an error of all others by the deadline") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(3)});
  auto x = std::vector<float>(100000, 1.0f);
  try {
    for (int step = 0; step < 10; ++step) {
      if (comm.rank() == 1 && step == 5) leave();
      comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::max).wait(pith::seq);
    }
  } catch (pith::communication_error const& error) {
    std::printf("%s\n", error.what());
  }
  leave();
}
