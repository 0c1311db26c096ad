// tests/comm/cut_link.cpp — exchanges until the link is cut: run by cut_link_test.sh, one rank on each host.
//
//   cut_link DIRECTORY SECONDS     writes DIRECTORY/begun.RANK after a step, and DIRECTORY/ended.RANK with the error
#include <pith/adaptor/identity.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto const directory = std::string(argv[1]) + "/";
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = std::chrono::duration<double>(std::atof(argv[2]))});
  auto const rank = std::to_string(comm.rank());
  auto exchange =
      pith::make_exchange<float>(pith::seq, comm, {{"weight", {1u << 18, 512}}}, pith::matrices(pith::identity()));
  auto gradient = std::vector<float>(exchange.size());
  auto begin = std::chrono::steady_clock::now();
  try {
    while (true) {
      begin = std::chrono::steady_clock::now();
      exchange.all_reduce_mean(gradient);
      std::ofstream(directory + "begun." + rank) << "a step\n";
    }
  } catch (pith::communication_error const& error) {
    auto const took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::ofstream(directory + "ended." + rank) << took << ' ' << error.what() << '\n';
  }
  _exit(0);  // MPI_Finalize would wait for the others
}
