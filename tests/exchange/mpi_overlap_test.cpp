// tests/exchange/mpi_overlap_test.cpp — buckets that leave over MPI while others are encoded and decoded.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace {

using any = pith::any_codec<float, pith::seq_executor>;

std::vector<pith::tensor_spec> const tensors = {
    {"weight", {48 * 32, 48}}, {"bias", {48}}, {"none", {0}}, {"head", {900, 30}}};

/// Whole sixteenths, whose sums are exact in any order.
std::vector<float> gradient(std::size_t n, unsigned rank, int step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = static_cast<float>(static_cast<int>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 33) - 16) / 16;
  }
  return g;
}

template <class Comm>
std::vector<float> one_by_one(Comm& comm, any const& codec, pith::exchange_options const& options) {
  auto exchange = pith::make_exchange<float>(pith::seq, comm, tensors, codec, options);
  auto g = std::vector<float>();
  for (int step = 0; step < 3; ++step) {
    g = gradient(exchange.size(), comm.rank(), step);
    exchange.begin(g);
    for (auto i = tensors.size(); i-- > 0;) exchange.ready(i);
    exchange.wait();
    exchange.fit_buckets();
  }
  return g;
}

template <class Comm>
std::vector<float> at_once(Comm& comm, any const& codec, pith::exchange_options const& options) {
  auto exchange = pith::make_exchange<float>(pith::seq, comm, tensors, codec, options);
  auto g = std::vector<float>();
  for (int step = 0; step < 3; ++step) {
    g = gradient(exchange.size(), comm.rank(), step);
    exchange.all_reduce_mean(g);
  }
  return g;
}

}  // namespace

TEST_CASE("buckets over MPI, fitted after each step, give the bits of one call over threads") {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto const feeds_back = any(pith::error_feedback(pith::top_k(0.1) | pith::qsgd<4>()));
  auto const varies = any(pith::error_feedback(pith::threshold(0.5, 0.5)));
  for (auto const& [codec, how] :
       {std::pair(any(pith::identity()), pith::gather::padded), std::pair(feeds_back, pith::gather::padded),
        std::pair(varies, pith::gather::exact), std::pair(varies, pith::gather::predicted)}) {
    auto const name = codec.name();
    CAPTURE(name);
    auto expected = std::vector<float>();
    auto guard = std::mutex();
    pith::run_ranks(comm.size(), [&, &codec = codec, how = how](pith::thread_communicator threads) {
      auto got = at_once(threads, codec, {.seed = 5, .gather_mode = how});
      auto const lock = std::lock_guard(guard);
      if (threads.rank() == comm.rank()) expected = std::move(got);
    });
    for (std::size_t bytes : {0u, 4000u}) {
      CHECK(at_once(comm, codec, {.seed = 5, .gather_mode = how, .bucket_bytes = bytes}) == expected);
      CHECK(one_by_one(comm, codec, {.seed = 5, .gather_mode = how, .bucket_bytes = bytes}) == expected);
    }
  }
}

TEST_CASE("two groups of MPI ranks exchange at the same time") {
  auto world = pith::mpi_communicator(MPI_COMM_WORLD);
  auto half = world.split(world.rank() % 2);
  auto wide = pith::make_exchange<float>(pith::seq, world, tensors, any(pith::identity()), {.bucket_bytes = 0});
  auto narrow = pith::make_exchange<float>(pith::seq, half, tensors, any(pith::identity()), {.bucket_bytes = 0});
  auto a = std::vector<float>(wide.size(), static_cast<float>(world.rank())), b = a;
  wide.begin(a);
  narrow.begin(b);
  for (auto i = tensors.size(); i-- > 0;) wide.ready(i), narrow.ready(i);
  narrow.wait();
  wide.wait();
  auto sum = 0.0f;
  for (unsigned r = 0; r < world.size(); ++r) sum += static_cast<float>(r);
  auto sum_of_half = 0.0f;
  for (auto r = world.rank() % 2; r < world.size(); r += 2) sum_of_half += static_cast<float>(r);
  CHECK(a == std::vector<float>(a.size(), sum / static_cast<float>(world.size())));
  CHECK(b == std::vector<float>(b.size(), sum_of_half / static_cast<float>(half.size())));
}
