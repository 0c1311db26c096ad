// tests/exchange/mpi_exchange_test.cpp — MPI ranks exchange what threads exchange.
#include <pith/comm/mpi.hpp>
#include <pith/comm/reproducible_sums.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <support/allocations.hpp>
#include <support/parsed.hpp>

#include <cmath>
#include <mutex>
#include <string_view>
#include <vector>

namespace {

template <class Comm>
std::vector<float> three_steps(Comm& comm, char const* codec) {
  auto exchange = pith::gradient_exchange<float, pith::seq_executor, Comm>(
      pith::seq, comm, {{"weight", {48 * 32, 48}}, {"bias", {48}}, {"empty", {0}}}, pith::parse<float>(codec),
      {.seed = 5});
  auto g = std::vector<float>(exchange.size());
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = std::sin(static_cast<float>(i + 31 * comm.rank()));
    exchange.all_reduce_mean(pith::span<float>(g));
  }
  return g;
}

bool has_sums(char const* text, unsigned ranks) {
  auto const codec = pith::parse<float>(text);
  auto const dims = pith::shape{48 * 32, 48};
  for (unsigned r = 0; r < codec.rounds(dims, ranks); ++r) {
    if (codec.round<float>(r, dims, ranks).how == pith::transport::all_reduce_sum) return true;
  }
  return false;
}

}  // namespace

TEST_CASE(
    "a gathered codec gives the bits that threads give, a summed one the same numbers, or the bits in their order") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto reproducible = pith::reproducible_sums<pith::mpi_communicator>(MPI_COMM_WORLD);
  for (auto const* codec :
       {"ef(top_k(0.05)|qsgd<8>)", "ef(scaled_sign)", "qsgd<4>", "ef(power_sgd(2))", "random_k(0.1)", "cast<half>",
        "ef(hierarchical(qsgd<8>,ef(top_k(0.05)),2))", "hierarchical(qsgd<8>,ef(power_sgd(2)),1)"}) {
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
    // at most the matrix's side. Each of N halves is rounded to 2^-11.
    auto const rounding = codec == std::string_view("cast<half>") ? 0x1p-11 : 48 * 48 * 0x1p-24;
    auto const slack = has_sums(codec, comm.size()) ? rounding * comm.size() : 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(std::abs(got[i] - expected[i]) <= slack);
    CHECK(three_steps(reproducible, codec) == expected);
  }
}

TEST_CASE("a step allocates nothing after the first ones") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  for (auto const* text :
       {"identity", "cast<half>", "ef(top_k(0.1)|qsgd<8>)", "ef(power_sgd(2))", "ef(two_shot(scaled_sign))",
        "ef(reduce_scatter(qsgd<8>,rows))", "ef(ring(qsgd<8>),unverified)", "g_top_k(0.1)"}) {
    CAPTURE(text);
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"weight", {64 * 32, 64}}, {"bias", {64}}},
                                               pith::parse<float>(text), pith::exchange_options{.bucket_bytes = 0});
    auto gradient = std::vector<float>(exchange.size(), 1.5f);
    for (int step = 0; step < 6; ++step) {
      auto const before = support::allocations.load();
      exchange.begin(gradient);
      exchange.ready(1);
      exchange.ready(0);
      exchange.wait();
      if (step > 1) CHECK(support::allocations.load() == before);
    }
  }
}

TEST_CASE("different codecs on two ranks are an error on all, not a hang") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  CHECK_THROWS_AS(three_steps(comm, comm.rank() == 1 ? "ef(top_k(0.1))" : "ef(top_k(0.2))"), pith::agreement_error);
}
