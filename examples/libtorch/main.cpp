// main.cpp — trains a model with libtorch on the ranks of MPI, with compressed gradients. Writes losses as CSV.
//
//     mpirun -n 4 train_libtorch --data shakespeare.txt --codec 'ef(power_sgd(4))'    a GPT of 0.8 million parameters
//     mpirun -n 4 train_libtorch --model lstm --data wikitext2 --codec 'two_shot(qsgd<8>)'
//     mpirun -n 4 train_libtorch --model resnet --data cifar10 --codec 'ef(top_k(0.01)|qsgd<8>)'
//     mpirun -n 4 train_libtorch --data shakespeare.txt --dense float                 MPI_Allreduce without pith
#include "trainer.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

namespace {

using namespace pith_libtorch;

/// All ranks must end with the same bits.
void require_equal(std::uint64_t digest) {
  std::uint64_t bounds[] = {digest, ~digest};
  MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (bounds[0] != ~bounds[1]) throw std::logic_error("train: the parameters of the ranks differ");
}

void run(options const& o, place at) {
  auto job = trainer(o, at);
  job.run();
  auto const digest = job.digest();
  require_equal(digest);
  if (at.rank == 0) fmt::print(stderr, "parameters: {:016x}\n", digest);
}

/// The thread of an exchange calls MPI during backward.
place begin_mpi(int& argc, char**& argv) {
  int provided = 0, rank = 0, ranks = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return {rank, ranks};
}

/// MPI_Finalize would wait for the other ranks.
[[noreturn]] void fail(place at, char const* error) {
  fmt::print(stderr, "train: rank {}: {}\n", at.rank, error);
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  auto const at = begin_mpi(argc, argv);
  auto app = CLI::App("Trains a model with compressed gradients.", "train_libtorch");
  try {
    run(parse_options(app, argc, argv), at);
  } catch (CLI::CallForHelp const&) {
    if (at.rank == 0) fmt::print("{}", app.help());
  } catch (c10::Error const& error) {
    fail(at, error.what_without_backtrace());
  } catch (std::exception const& error) {
    fail(at, error.what());
  }
  MPI_Finalize();
}
