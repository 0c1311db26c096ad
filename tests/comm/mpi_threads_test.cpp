// tests/comm/mpi_threads_test.cpp — without MPI_THREAD_MULTIPLE only MPI's own thread calls it.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/comm/pairwise.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

/// What f throws on a thread of its own is thrown here.
template <class F>
void elsewhere(F const& f) {
  auto thrown = std::exception_ptr();
  std::jthread([&] {
    try {
      f();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

TEST_CASE("a call on another thread is refused, and the communicator is none the worse") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto x = std::vector<float>(10, 1.0f);
  auto const sum = [&] { comm.all_reduce(pith::seq, pith::span<float>(x), pith::reduction::sum).wait(pith::seq); };
  CHECK_THROWS_WITH_AS(elsewhere(sum),
                       "pith::mpi_communicator: a call from a thread other than MPI's main thread needs "
                       "MPI_THREAD_SERIALIZED: call MPI_Init_thread in place of MPI_Init",
                       std::invalid_argument);
  CHECK_THROWS_AS(elsewhere([&] { comm.split(0); }), std::invalid_argument);
  sum();
  CHECK(x[9] == static_cast<float>(comm.size()));
}

template <class Comm>
void check_exchange(Comm& comm) {
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"weight", {10}}}, pith::identity());
  auto g = std::vector<float>(10, static_cast<float>(comm.rank()));
  exchange.begin(g);
  CHECK_THROWS_WITH_AS(exchange.ready(0), doctest::Contains("call MPI_Init_thread"), std::invalid_argument);
  CHECK_NOTHROW(exchange.wait());
  CHECK(g[9] == static_cast<float>(comm.size() - 1) / 2);
  CHECK_NOTHROW(exchange.all_reduce_mean(g));
}

TEST_CASE("ready() needs a thread and is refused without one; the step goes on") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  check_exchange(comm);
  auto erased = pith::any_communicator(comm);
  check_exchange(erased);
  auto reproducible = pith::reproducible_sums<pith::mpi_communicator>(MPI_COMM_WORLD);
  check_exchange(reproducible);
  auto swapped = pith::pairwise<pith::mpi_communicator>(MPI_COMM_WORLD);
  check_exchange(swapped);
}
