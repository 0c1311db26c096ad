// tests/comm/mpi_test.cpp — MPI ranks conform.
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/exec/seq.hpp>

#include <comm/conformance.hpp>

#include <chrono>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

TEST_CASE("MPI ranks conform") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  conformance::check(pith::seq, comm);
  auto erased = pith::any_communicator(comm);
  conformance::check(pith::seq, erased);
}

TEST_CASE("MPI ranks conform where messages are long") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  for (std::size_t n : {32768u, 100001u}) conformance::transfers(pith::seq, comm, n);
}

TEST_CASE("MPI ranks conform where calls are made of pieces") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 60s, .most = 7});
  conformance::check(pith::seq, comm);
}

TEST_CASE("MPI ranks conform where they swap in pairs") {
  auto comm = pith::pairwise<pith::mpi_communicator>(MPI_COMM_WORLD);
  conformance::check(pith::seq, comm);
}

TEST_CASE("another thread than MPI's first may make the calls, while that uses another communicator") {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  REQUIRE(provided == MPI_THREAD_MULTIPLE);
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD), other = pith::mpi_communicator(MPI_COMM_WORLD);
  auto const thread = std::jthread([&] { conformance::transfers(pith::seq, other, 1001); });
  conformance::transfers(pith::seq, comm, 64);
}

TEST_CASE("an MPI call without wait() completes when its request is destroyed") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto x = std::vector<float>(1000, 1.0f);
  comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum);
  CHECK(x == std::vector<float>(1000, static_cast<float>(comm.size())));
}

TEST_CASE("ranks wait in any order for calls that are under way together") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 10s});
  auto sums = std::vector(3, std::vector<float>(100'001, 1.0f));
  auto requests = std::vector<pith::mpi_request>();
  for (auto& x : sums) requests.push_back(comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum));
  for (std::size_t i = 0; i < 3; ++i) requests[(i * (1 + comm.rank() % 2) + comm.rank()) % 3].wait(pith::seq);
  for (auto const& x : sums) CHECK(x == std::vector(x.size(), static_cast<float>(comm.size())));
}

TEST_CASE("bad arguments are refused in words") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto const mine = std::vector<std::byte>(8);
  auto all = std::vector<std::byte>(3);
  CHECK_THROWS_WITH_AS(comm.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all)),
                       doctest::Contains("pith::mpi_communicator::all_gather: 'all' must have "),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(comm.split(1u << 31),
                       "pith::mpi_communicator::split: color must be at most 2^31 - 1, got 2147483648",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 0s}),
                       "pith::mpi_communicator: timeout must be above 0 s, got 0 s", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::mpi_communicator(MPI_COMM_WORLD, {.most = 0}),
                       "pith::mpi_communicator: most must be in [1, 2^31 - 1], got 0", std::invalid_argument);
}

namespace {

/// Host memory that says that it is a device's.
struct on_device : pith::seq_executor {
  using space = pith::device_space;
};
static_assert(pith::calls_of<pith::mpi_communicator, on_device> == pith::optional_calls::all());

}  // namespace

TEST_CASE("device memory is for an MPI that is aware of CUDA") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  if (pith::detail::is_cuda_aware()) {
    conformance::check(on_device(), comm);
  } else {
    CHECK_THROWS_WITH_AS(
        conformance::transfers(on_device(), comm, 5),
        doctest::Contains("pith::mpi_communicator: device memory needs an MPI that reports CUDA support"),
        pith::communication_error);
  }
}
