// tests/reports/mpi_mixed_calls_test.cpp — one rank makes another call than the other ranks. All ranks throw, and MPI
// ends no rank. A report of this kind is horovod/horovod#2420.
#include <pith/comm/mpi.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

using namespace std::chrono_literals;

namespace {

using bytes = pith::span<std::byte>;

/// Memory that MPI may still use after an error.
std::byte* memory() {
  static auto all = std::vector<std::byte>(std::size_t{1} << 23);
  return all.data();
}
template <class T>
pith::span<T> values(std::size_t n) {
  return {reinterpret_cast<T*>(memory()), n};
}
bytes received(std::size_t n) { return {memory() + (std::size_t{1} << 22), n}; }

using call = std::function<pith::mpi_request(pith::mpi_communicator&, std::size_t)>;

/// Sends to the next rank, and receives from the previous rank.
pith::mpi_request shift(pith::mpi_communicator& c, std::size_t n) {
  return c.send_recv(pith::seq, values<std::byte const>(n), (c.rank() + 1) % c.size(), received(n),
                     (c.rank() + c.size() - 1) % c.size());
}
call const gather = [](auto& c, std::size_t n) {
  return c.all_gather(pith::seq, values<std::byte const>(n), received(n * c.size()));
};
call const swap_all = [](auto& c, std::size_t n) {
  return c.all_to_all(pith::seq, values<std::byte const>(n * c.size()), received(n * c.size()));
};
template <class T, pith::reduction How>
pith::mpi_request reduce(pith::mpi_communicator& c, std::size_t n) {
  return c.all_reduce(pith::seq, values<T>(n / sizeof(T)), How);
}
template <class T, pith::reduction How>
pith::mpi_request scatter(pith::mpi_communicator& c, std::size_t n) {
  return c.reduce_scatter(pith::seq, values<T const>(n / sizeof(T) * c.size()),
                          pith::span<T>(reinterpret_cast<T*>(received(n).data()), n / sizeof(T)), How);
}
template <unsigned Root>
pith::mpi_request broadcast(pith::mpi_communicator& c, std::size_t n) {
  return c.broadcast(pith::seq, values<std::byte>(n), Root);
}
call larger(call const& of) {
  return [of](auto& c, std::size_t n) { return of(c, n + n / 2); };
}

constexpr auto sum = pith::reduction::sum, max = pith::reduction::max;
using pith::half;

struct row {
  call others, odd;
  char const* words;  ///< a part of each rank's error
};
std::vector<row> const rows = {
    {gather, reduce<float, sum>, "calls all_gather while rank 1 calls all_reduce of float by sum"},
    {swap_all, gather, "calls all_to_all while rank 1 calls all_gather"},
    {gather, broadcast<0>, "calls all_gather while rank 1 calls broadcast from rank 0"},
    {broadcast<0>, broadcast<1>, "calls broadcast from rank 0 while rank 1 calls broadcast from rank 1"},
    {reduce<float, sum>, reduce<std::int32_t, sum>, "of float by sum while rank 1 calls all_reduce of int32 by sum"},
    {reduce<float, sum>, reduce<float, max>, "of float by sum while rank 1 calls all_reduce of float by max"},
    {reduce<half, max>, reduce<pith::bfloat16, max>, "of half by max while rank 1 calls all_reduce of bfloat16 by max"},
    {reduce<double, sum>, scatter<double, sum>, "by sum while rank 1 calls reduce_scatter of double by sum"},
    {scatter<std::int8_t, sum>, broadcast<1>, "of int8 by sum while rank 1 calls broadcast from rank 1"},
    {gather, shift, "pith::mpi_communicator: "},
    {shift, gather, "pith::mpi_communicator: "},
    {shift, reduce<float, sum>, "pith::mpi_communicator: "},
    {shift, larger(shift), "send_recv: ranks must pass equal sizes, got "},
    {gather, larger(gather), "all_gather: ranks must pass equal sizes, got "},
    {swap_all, larger(swap_all), "all_to_all: ranks must pass equal sizes, got "},
    {reduce<float, sum>, larger(reduce<float, sum>), "all_reduce: ranks must pass equal sizes, got "},
    {reduce<half, sum>, larger(reduce<half, sum>), "all_reduce: ranks must pass equal sizes, got "},
    {scatter<float, max>, larger(scatter<float, max>), "reduce_scatter: ranks must pass equal sizes, got "},
    {broadcast<0>, larger(broadcast<0>), "broadcast: ranks must pass equal sizes, got "},
    {larger(broadcast<1>), broadcast<1>, "broadcast: ranks must pass equal sizes, got "},
};

void check(row const& r, std::size_t n, std::size_t most) {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s, .most = most});
  auto const begin = std::chrono::steady_clock::now();
  auto const run = [&] { (comm.rank() == 1 ? r.odd : r.others)(comm, n).wait(pith::seq); };
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(run(), doctest::Contains(r.words), pith::communication_error);
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
}

}  // namespace

TEST_CASE("each error contains both calls if one rank makes another call") {
  for (std::size_t const n : {16u, 4096u, 400'000u}) {
    for (auto const& r : rows) {
      CAPTURE(n);
      CAPTURE(r.words);
      check(r, n, std::size_t{1} << 27);
    }
  }
}

TEST_CASE("all ranks throw if one rank makes another call and calls have several pieces") {
  for (auto const& r : rows) check(r, 4096, 1000);
}

TEST_CASE("the wait for a later call throws the error of an earlier call") {
  for (auto const& r : rows) {
    auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s, .most = 1000});
    auto first = (comm.rank() == 1 ? r.odd : r.others)(comm, 4096);
    auto second = gather(comm, 4096);
    CHECK_THROWS_WITH_AS(second.wait(pith::seq), doctest::Contains(r.words), pith::communication_error);
    CHECK_THROWS_WITH_AS(first.wait(pith::seq), doctest::Contains(r.words), pith::communication_error);
  }
}

TEST_CASE("all ranks throw if one rank waits in a collective and the others in send_recv") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s});
  auto const words = comm.rank() == 1 ? "rank 1 calls all_gather" : "send_recv cannot end: see the error of rank 1";
  CHECK_THROWS_WITH_AS((comm.rank() == 1 ? gather : call(shift))(comm, 100).wait(pith::seq), doctest::Contains(words),
                       pith::communication_error);
}

TEST_CASE("all ranks throw if one rank alone calls split") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = 20s});
  auto const run = [&] { comm.rank() == 1 ? comm.split(0).size() : (gather(comm, 0).wait(pith::seq), 0); };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("calls all_gather while rank 1 calls split"),
                       pith::communication_error);
}

TEST_CASE("the error of unequal sizes contains the lowest rank of each size") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  CHECK_THROWS_WITH_AS(
      gather(comm, comm.rank() == 1 ? 18 : 204).wait(pith::seq),
      "pith::mpi_communicator: all_gather: ranks must pass equal sizes, got 204 bytes on rank 0 and 18 "
      "bytes on rank 1: one of these ranks has changed its exchange alone, uses another exchange or "
      "passed another tensor",
      pith::communication_error);
}
