// tests/comm/mpi_faults_test.cpp — MPI ranks that say something else than expected, or nothing.
#include <pith/comm/mpi.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include <comm/conformance.hpp>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// Memory that outlives what MPI may still write to it.
std::vector<float>& lasting() {
  static auto memory = std::vector<float>(1000);
  return memory;
}

/// A ring of messages of 8 bytes, but for rank 0's.
void ring(pith::mpi_communicator& comm, std::size_t bytes_of_rank_0) {
  auto const mine = pith::span<std::byte const>(reinterpret_cast<std::byte*>(lasting().data()),
                                                comm.rank() == 0 ? bytes_of_rank_0 : 8);
  auto const theirs = pith::span<std::byte>(reinterpret_cast<std::byte*>(lasting().data() + 100), 8);
  auto const next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  comm.send_recv(pith::seq, mine, next, theirs, previous).wait(pith::seq);
}

pith::mpi_request sum(pith::mpi_communicator& comm) {
  return comm.all_reduce(pith::seq, pith::span<float>(lasting()), pith::reduction::sum);
}

void poll(pith::mpi_request& request) {
  while (!request.test(pith::seq)) std::this_thread::yield();
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Rank 0 makes no call, and keeps MPI running until the others have given up.
template <class F>
void without_rank_0(pith::mpi_communicator& comm, F const& f) {
  auto all = pith::mpi_communicator(MPI_COMM_WORLD);
  if (comm.rank() != 0) f();
  conformance::gathers(pith::seq, all, 1);
}

}  // namespace

TEST_CASE("a message that is too long is an error of both ranks, and ends the communicator's use") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  if (comm.rank() == 2) return ring(comm, 16);
  CHECK_THROWS_AS(ring(comm, 16), pith::communication_error);
  CHECK_THROWS_WITH_AS(sum(comm), doctest::Contains("pith::mpi_communicator: send_recv: "), pith::communication_error);
}

TEST_CASE("a message that is too short is an error of both ranks") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  if (comm.rank() == 2) return ring(comm, 5);
  CHECK_THROWS_WITH_AS(ring(comm, 5),
                       doctest::Contains("pith::mpi_communicator: send_recv: ranks must pass equal sizes, got "),
                       pith::communication_error);
}

TEST_CASE("sizes that differ are an error of all ranks at once") {
  auto const refused = [](auto const& call) {
    auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
    auto const begin = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(call(comm, comm.rank() == 0 ? 33'768u : 32'768u).wait(pith::seq), pith::communication_error);
    CHECK(seconds_since(begin) < 10);
  };
  static auto memory = std::vector<std::byte>(1 << 20), other = memory;
  using bytes = pith::span<std::byte>;
  refused([](auto& comm, std::size_t n) {
    return comm.all_gather(pith::seq, pith::span<std::byte const>(memory.data(), n),
                           bytes(other.data(), n * comm.size()));
  });
  refused([](auto& comm, std::size_t n) {
    return comm.all_to_all(pith::seq, pith::span<std::byte const>(memory.data(), n * comm.size()),
                           bytes(other.data(), n * comm.size()));
  });
  refused([](auto& comm, std::size_t n) {
    auto* const x = reinterpret_cast<float*>(memory.data());
    return comm.all_reduce(pith::seq, pith::span<float>(x, n), pith::reduction::sum);
  });
  refused([](auto& comm, std::size_t n) {
    auto* const x = reinterpret_cast<float*>(memory.data());
    return comm.reduce_scatter(pith::seq, pith::span<float const>(x, n * comm.size()),
                               pith::span<float>(reinterpret_cast<float*>(other.data()), n), pith::reduction::sum);
  });
  refused([](auto& comm, std::size_t n) { return comm.broadcast(pith::seq, bytes(memory.data(), n), 0); });
}

TEST_CASE("two communicators may be waited for crosswise") {
  auto a = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 30s}),
       b = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 30s});
  auto const mine = std::vector<std::byte>(1 << 20);
  auto all = std::vector<std::byte>(mine.size() * a.size()), others = all;
  auto first = a.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all));
  auto second = b.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(others));
  (a.rank() % 2 == 0 ? first : second).wait(pith::seq);
  (a.rank() % 2 == 0 ? second : first).wait(pith::seq);
  CHECK(all == others);
}

TEST_CASE("an MPI call throws after the timeout when a rank makes no call, and every later call throws at once") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 2s});
  without_rank_0(comm, [&] {
    auto const text =
        "pith::mpi_communicator: all_reduce did not end within 2 s: a rank has run out of batches, or is gone or "
        "stuck: give all ranks equally many batches";
    auto const begin = std::chrono::steady_clock::now();
    auto abandoned = sum(comm);
    CHECK_THROWS_WITH_AS(sum(comm).wait(pith::seq), text, pith::communication_error);
    CHECK(seconds_since(begin) >= 2);
    auto const later = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH_AS(ring(comm, 8), text, pith::communication_error);
    CHECK_THROWS_WITH_AS(comm.split(0), text, pith::communication_error);
    CHECK_THROWS_WITH_AS(abandoned.wait(pith::seq), text, pith::communication_error);
    CHECK(seconds_since(later) < 2);
  });
}

TEST_CASE("polling an MPI request with test() throws when a rank makes no call") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 2s});
  without_rank_0(comm, [&] {
    auto request = sum(comm);
    CHECK_THROWS_AS(poll(request), pith::communication_error);
  });
}

TEST_CASE("making a communicator has a deadline") {
  auto world = MPI_Comm();
  MPI_Comm_dup(MPI_COMM_WORLD, &world);  // never freed, since the ranks do not agree where they are
  auto comm = pith::mpi_communicator(world, {.timeout = 2s});
  without_rank_0(comm, [&] {
    CHECK_THROWS_WITH_AS(pith::mpi_communicator(world, {.timeout = 2s}),
                         "pith::mpi_communicator: MPI_Comm_idup did not end within 2 s: a rank has run out of batches, "
                         "or is gone or stuck: give all ranks equally many batches",
                         pith::communication_error);
    CHECK_THROWS_WITH_AS(comm.split(1),
                         "pith::mpi_communicator: split did not end within 2 s: a rank has run out of batches, or is "
                         "gone or stuck: give all ranks equally many batches",
                         pith::communication_error);
  });
}

TEST_CASE("the buffers of pending MPI calls outlive an exchange whose step failed") {
  auto all = pith::mpi_communicator(MPI_COMM_WORLD), comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 3s});
  auto g = std::vector<float>(16384);
  auto exchange = std::make_unique<pith::gradient_exchange<float, pith::seq_executor, pith::mpi_communicator>>(
      pith::seq, comm, std::vector<pith::tensor_spec>{{"weight", {g.size()}}}, pith::qsgd<8>());
  if (comm.rank() != 0) {
    CHECK_THROWS_AS(exchange->all_reduce_mean(g), pith::communication_error);
    exchange.reset();
  }
  auto const others = std::vector(300, std::vector<float>(g.size() / 4, 42.0f));  // where the exchange was
  conformance::gathers(pith::seq, all, 1);
  if (comm.rank() == 0) exchange->all_reduce_mean(g);  // its bytes come to ranks that have given up
  conformance::gathers(pith::seq, all, 1);
  for (auto const& other : others) CHECK(other == std::vector<float>(g.size() / 4, 42.0f));
}

TEST_CASE("a pair of ranks names the one that does not come") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 2s});
  without_rank_0(comm, [&] {
    CHECK_THROWS_WITH_AS(ring(comm, 8),
                         "pith::mpi_communicator: send_recv did not end within 2 s: rank 0 has run out of batches, or "
                         "is gone or stuck: give all ranks equally many batches",
                         pith::communication_error);
  });
}

TEST_CASE("an exchange throws when another rank exchanges over a communicator of different ranks") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 2s});
  auto alone = comm.split(comm.rank());
  auto g = std::vector<float>(10);
  auto const exchange = [&g](pith::mpi_communicator& over) {
    auto made = pith::make_exchange<float>(pith::seq, over, {{"weight", {10}}}, pith::scaled_sign());
    made.all_reduce_mean(pith::span<float>(g));
  };
  without_rank_0(comm, [&] { CHECK_THROWS_AS(exchange(comm), pith::communication_error); });
  if (comm.rank() == 0) CHECK_NOTHROW(exchange(alone));
}
