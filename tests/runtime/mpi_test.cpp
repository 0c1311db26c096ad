// tests/runtime/mpi_test.cpp — a compiled exchange over MPI gives the means of threads.
#include <pith/runtime.hpp>
#include <pith/runtime/mpi.hpp>
#include <pith/runtime/run_ranks.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace {

/// Rank-dependent gradients, exchanged for three steps.
std::vector<float> means(pith::any_communicator& comm) {
  auto const codec = pith::runtime::parse<float>("ef(top_k(0.1)|qsgd<8>)");
  auto exchange = pith::runtime::gradient_exchange<float>({}, comm, {{"weights", pith::vector(1000)}}, codec);
  auto g = std::vector<float>(exchange.size());
  for (unsigned step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>((i * 7919 + comm.rank() * 31 + step) % 1009);
    exchange.all_reduce_mean(g);
  }
  return g;
}

}  // namespace

TEST_CASE("MPI ranks have the means of threads") {
  auto comm = pith::runtime::mpi(MPI_COMM_WORLD);
  auto expected = std::vector<float>();
  pith::runtime::run_ranks(comm.size(), [&](pith::any_communicator& thread) {
    auto const of_threads = means(thread);
    if (thread.rank() == 0) expected = of_threads;
  });
  CHECK(means(comm) == expected);
  auto swaps = pith::runtime::mpi_pairwise(MPI_COMM_WORLD);
  CHECK(means(swaps) == expected);
}
