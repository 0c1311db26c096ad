// tests/comm/mpi_threads_test.cpp — without MPI_THREAD_MULTIPLE only MPI's own thread calls it.
#include <pith/codec/identity.hpp>
#include <pith/comm/mpi.hpp>
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
                       "pith::mpi_communicator::all_reduce: a thread other than the main one needs "
                       "MPI_THREAD_SERIALIZED: call MPI_Init_thread in place of MPI_Init",
                       std::invalid_argument);
  CHECK_THROWS_AS(elsewhere([&] { comm.split(0); }), std::invalid_argument);
  sum();
  CHECK(x[9] == static_cast<float>(comm.size()));
}

TEST_CASE("an exchange at once needs no thread, and one bucket by bucket says what it needs") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"weight", {10}}}, pith::identity());
  auto g = std::vector<float>(10, 1.0f);
  CHECK_NOTHROW(exchange.all_reduce_mean(g));
  exchange.begin(g);
  exchange.ready(0);
  CHECK_THROWS_WITH_AS(exchange.wait(), doctest::Contains("call MPI_Init_thread"), std::invalid_argument);
}
