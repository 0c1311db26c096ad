// tests/comm/mpi_test.cpp — MPI ranks conform, and exchange what threads exchange.
#include <pith/comm/gradient_exchange.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exec/seq.hpp>

#include <comm/conformance.hpp>
#include <support/parsed.hpp>

#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

namespace {

template <class Comm>
std::vector<float> three_steps(Comm& comm, char const* codec) {
  auto exchange = pith::gradient_exchange<float, pith::seq_executor, Comm>(
      pith::seq, comm, {{"weight", {48 * 32, 48}}, {"bias", {48}}, {"empty", {0}}}, pith::parse<float>(codec), 5);
  auto g = std::vector<float>(exchange.size());
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = std::sin(static_cast<float>(i + 31 * comm.rank()));
    exchange.all_reduce_mean(pith::span<float>(g));
  }
  return g;
}

}  // namespace

TEST_CASE("MPI ranks conform") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  conformance::check(pith::seq, comm);
}

TEST_CASE("MPI ranks conform where calls are made of pieces") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, 60s, 7);
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

TEST_CASE("a gathered codec gives the bits that threads give, a summed one the same numbers") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  for (auto const* codec :
       {"ef(top_k(0.05)|qsgd<8>)", "ef(scaled_sign)", "qsgd<4>", "ef(power_sgd(2))", "random_k(0.1)"}) {
    CAPTURE(codec);
    auto expected = std::vector<float>();
    auto guard = std::mutex();
    pith::run_ranks(comm.size(), [&](pith::thread_communicator threads) {
      auto got = three_steps(threads, codec);
      auto const lock = std::lock_guard(guard);
      if (threads.rank() == comm.rank()) expected = std::move(got);
    });
    auto const got = three_steps(comm, codec);
    // Sums of N floats of magnitude <= 1 in another order differ by at most N roundings; what follows multiplies by
    // at most the matrix's side.
    auto const slack =
        pith::parse<float>(codec).round<float>(0, {48 * 32, 48}, comm.size()).how == pith::transport::all_gather
            ? 0.0
            : 48.0 * 48.0 * comm.size() * 0x1p-24;
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(std::abs(got[i] - expected[i]) <= slack);
  }
}

TEST_CASE("different codecs on two ranks are an error on all, not a hang") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  CHECK_THROWS_AS(three_steps(comm, comm.rank() == 1 ? "ef(top_k(0.1))" : "ef(top_k(0.2))"), pith::agreement_error);
}

TEST_CASE("a call that nobody waits for ends with its request") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto x = std::vector<float>(1000, 1.0f);
  comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum);
  CHECK(x == std::vector<float>(1000, static_cast<float>(comm.size())));
}

TEST_CASE("bad arguments are refused in words") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto const mine = std::vector<std::byte>(8);
  auto all = std::vector<std::byte>(3);
  CHECK_THROWS_WITH_AS(comm.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all)),
                       doctest::Contains("pith::mpi: all_gather needs room for"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(comm.split(1u << 31), "pith::mpi: split takes colours up to 2^31 - 1, got 2147483648",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::mpi_communicator(MPI_COMM_WORLD, 0s),
                       "pith::mpi: the timeout must be longer than 0 s, got 0 s", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::mpi_communicator(MPI_COMM_WORLD, 1s, 0),
                       "pith::mpi: a call of MPI takes 1 to 2^31 - 1 elements, got 0", std::invalid_argument);
}

namespace {

/// Host memory that says that it is a device's.
struct on_device : pith::seq_executor {
  using space = pith::device_space;
};
static_assert(pith::communicates_in_full<pith::mpi_communicator, on_device>);

}  // namespace

TEST_CASE("device memory is for an MPI that is aware of CUDA") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  if (pith::detail::is_cuda_aware()) {
    conformance::check(on_device(), comm);
  } else {
    CHECK_THROWS_WITH_AS(conformance::transfers(on_device(), comm, 5),
                         doctest::Contains("pith::mpi: this MPI was built without support for CUDA"),
                         pith::communication_error);
  }
}
