// tests/comm/mpi_large_test.cpp — MPI ranks move more than 2^31 bytes, which MPI's counts cannot say. Takes 12 GB of memory.
#include <pith/comm/mpi.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

constexpr std::size_t two_to_31 = std::size_t{1} << 31;
constexpr auto options = pith::mpi_options{.timeout = std::chrono::minutes(10)};

/// What a rank holds at i: at most 32 of two ranks, so that sums fit, and without the period of MPI's calls, 2^27.
std::int8_t held(unsigned rank, std::size_t i) { return static_cast<std::int8_t>((i * 2654435761u >> 29 & 31) + rank); }

std::vector<std::byte> bytes_of(unsigned rank, std::size_t n) {
  auto x = std::vector<std::byte>(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<std::byte>(held(rank, i));
  return x;
}
std::size_t differ(std::byte const* x, unsigned rank, std::size_t n) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) wrong += x[i] != static_cast<std::byte>(held(rank, i));
  return wrong;
}

}  // namespace

TEST_CASE("all-gathers and all-to-alls move more than 2^31 bytes") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, options);
  auto const n = two_to_31 / 2 + 5;
  auto const mine = bytes_of(comm.rank(), n);
  auto all = std::vector<std::byte>(n * comm.size());
  comm.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all)).wait(pith::seq);
  for (unsigned r = 0; r < comm.size(); ++r) CHECK(differ(all.data() + r * n, r, n) == 0);

  auto const each = bytes_of(comm.rank(), n / comm.size() * comm.size());
  all.resize(each.size());
  comm.all_to_all(pith::seq, pith::span<std::byte const>(each), pith::span<std::byte>(all)).wait(pith::seq);
  auto const piece = each.size() / comm.size();
  std::size_t wrong = 0;
  for (unsigned r = 0; r < comm.size(); ++r) {
    for (std::size_t i = 0; i < piece; ++i)
      wrong += all[r * piece + i] != static_cast<std::byte>(held(r, comm.rank() * piece + i));
  }
  CHECK(wrong == 0);
}

TEST_CASE("pairs and broadcasts move more than 2^31 bytes") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, options);
  auto const next = (comm.rank() + 1) % comm.size();
  auto x = bytes_of(comm.rank(), two_to_31 + 3);
  auto theirs = std::vector<std::byte>(x.size());
  comm.send_recv(pith::seq, pith::span<std::byte const>(x), next, pith::span<std::byte>(theirs), next).wait(pith::seq);
  CHECK(differ(theirs.data(), next, theirs.size()) == 0);
  comm.broadcast(pith::seq, pith::span<std::byte>(x), 1).wait(pith::seq);
  CHECK(differ(x.data(), 1, x.size()) == 0);
}

TEST_CASE("sums have more than 2^31 elements") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, options);
  auto x = std::vector<std::int8_t>(two_to_31 + 11);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = held(comm.rank(), i);
  comm.all_reduce(pith::seq, pith::span<std::int8_t>(x), pith::reduction::sum).wait(pith::seq);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) wrong += x[i] != held(0, i) + held(1, i);
  CHECK(wrong == 0);
}
