// tests/reports/mpi_life_test.cpp — communicators, requests and exchanges that are used before MPI_Init, after
// MPI_Finalize, or with an MPI_Comm that is not an intracommunicator. Each call throws, and MPI does not end the
// program.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr auto* without_mpi =
    "pith::mpi_communicator: make it after MPI_Init and before MPI_Finalize: MPI does not run";

/// The error of a communicator that is made before main.
std::string const before_init = [] {
  try {
    pith::mpi_communicator(MPI_COMM_WORLD).size();
  } catch (std::invalid_argument const& e) {
    return std::string(e.what());
  }
  return std::string();
}();

using exchange_type = pith::gradient_exchange<float, pith::seq_executor, pith::mpi_communicator>;

/// Objects that a program may destroy after MPI_Finalize.
struct trainer {
  pith::mpi_communicator comm{MPI_COMM_WORLD};
  pith::mpi_communicator half = comm.split(comm.rank() % 2);
  pith::pairwise<pith::mpi_communicator> pairs{MPI_COMM_WORLD};
  pith::reproducible_sums<pith::mpi_communicator> sums{MPI_COMM_WORLD};
  pith::any_communicator erased{comm};
  exchange_type exchange{pith::seq,
                         comm,
                         {{"weight", {1000}}, {"bias", {10}}},
                         pith::any_codec<float, pith::seq_executor>(pith::identity())};
  std::vector<float> gradients = std::vector<float>(1010, 1), narrow = gradients;
  std::vector<pith::mpi_request> requests;

  pith::mpi_request sum() { return comm.all_reduce(pith::seq, pith::span<float>(narrow), pith::reduction::sum); }
};
std::unique_ptr<trainer> global;

}  // namespace

TEST_CASE("a communicator needs a running MPI") {
  if (!before_init.empty()) CHECK(before_init == without_mpi);  // empty if mpi_scope has begun earlier
}

TEST_CASE("a communicator needs an intracommunicator") {
  CHECK_THROWS_WITH_AS(pith::mpi_communicator(MPI_COMM_NULL),
                       "pith::mpi_communicator: 'comm' must be a communicator, got MPI_COMM_NULL",
                       std::invalid_argument);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half = MPI_COMM_NULL, both = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 7, &both);
  CHECK_THROWS_WITH_AS(pith::mpi_communicator{both},
                       "pith::mpi_communicator: 'comm' must be an intracommunicator, got an intercommunicator: call "
                       "MPI_Intercomm_merge",
                       std::invalid_argument);
  MPI_Comm_free(&both), MPI_Comm_free(&half);
}

TEST_CASE("MPI types of the caller and of pith may exist until MPI_Finalize") {
  static MPI_Datatype const pair = [] {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_FLOAT, &made);
    MPI_Type_commit(&made);
    return made;
  }();
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto x = std::vector<pith::half>(10, pith::half(1.0f));
  comm.all_reduce(pith::seq, pith::span<pith::half>(x), pith::reduction::sum).wait(pith::seq);
  CHECK(static_cast<float>(x[9]) == static_cast<float>(comm.size()));
  CHECK(pair != MPI_DATATYPE_NULL);
}

TEST_CASE("calls of objects that outlive MPI_Finalize throw but their destructors do not") {
  global = std::make_unique<trainer>();
  for (int step = 0; step < 3; ++step) global->exchange.all_reduce_mean(global->gradients);
  global->requests.push_back(global->sum());
  global->requests[0].wait(pith::seq);
  global->requests.push_back(global->sum());
  while (!global->requests[1].test(pith::seq)) {
  }
  MPI_Finalize();
  auto const* const ended = "pith::mpi_communicator: calls must end before MPI_Finalize: MPI has ended";
  CHECK_THROWS_WITH_AS(pith::mpi_communicator(MPI_COMM_WORLD), without_mpi, std::invalid_argument);
  CHECK_THROWS_WITH_AS(global->sum(), ended, pith::communication_error);
  CHECK_THROWS_WITH_AS(global->half.split(0), ended, pith::communication_error);
  CHECK_THROWS_WITH_AS(global->exchange.all_reduce_mean(global->gradients), ended, pith::communication_error);
  CHECK(global->comm.size() > 0);
  global.reset();
}
