// tests/comm/nccl_test.cu — NCCL's communicators of one rank and, where there are as many devices, of several.
#include <pith/collective/reduce_scatter.hpp>
#include <pith/comm/nccl.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <comm/conformance.hpp>
#include <support/device.hpp>
#include <support/nccl_ranks.hpp>
#include <support/replayed.hpp>

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

using support::at_once;
using support::replayed;

namespace {

static_assert(pith::communicator<pith::nccl_communicator, pith::cuda_executor> &&
              pith::calls_of<pith::nccl_communicator, pith::cuda_executor> == pith::optional_calls::all());

/// NCCL does not serve host memory, and says so by having no such call.
struct on_host {
  using space = pith::host_space;
};
static_assert(!pith::detail::has_all_gather<pith::nccl_communicator, on_host> &&
              !pith::detail::has_all_reduce<pith::nccl_communicator, on_host, float>);

/// A NCCL communicator of this rank alone.
ncclComm_t of_one() {
  ncclComm_t raw = nullptr;
  int device = 0;
  REQUIRE(ncclCommInitAll(&raw, 1, &device) == ncclSuccess);
  return raw;
}

std::vector<pith::tensor_spec> const tensors = {{"first", {300'000}}, {"second", {1}}, {"third", {200'003}}};

/// The means of steps of three buckets, which `step` makes; each rank has gradients of its own. A rank receives only its
/// shard of the third tensor.
template <pith::executor E, class Comm, class Step>
std::vector<std::vector<float>> means(E const& exec, Comm& comm, Step&& step) {
  auto const policy = [](pith::tensor_spec const& tensor) -> pith::any_codec<float, E> {
    if (tensor.name == "third") return pith::error_feedback(pith::reduce_scatter(pith::qsgd<8>()));
    return pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());
  };
  auto exchange = pith::make_exchange<float>(exec, comm, tensors, policy, {.seed = 5, .bucket_bytes = 0});
  auto const g = pith::buffer<float, E>(exec, exchange.size());
  auto all = std::vector<std::vector<float>>();
  for (unsigned t = 0; t < 4; ++t) {
    auto& own = all.emplace_back(support::narrow<float>(support::normal_vector(g.size(), 90 + t + 7 * comm.rank())));
    exec.upload(g.data(), own.data(), g.size_bytes());
    step(exchange, g.view());
    exec.download(own.data(), g.data(), g.size_bytes());
  }
  return all;
}

struct one_by_one {
  template <class Exchange, class Gradients>
  void operator()(Exchange& exchange, Gradients g) const {
    exchange.begin(g);
    for (auto i = tensors.size(); i-- > 0;) exchange.ready(i);
    exchange.wait();
  }
};

/// The means that each rank on the host has.
std::vector<std::vector<std::vector<float>>> expected_means(unsigned ranks) {
  auto expected = std::vector<std::vector<std::vector<float>>>(ranks);
  pith::run_ranks(ranks,
                  [&](pith::thread_communicator comm) { expected[comm.rank()] = means(pith::seq, comm, at_once()); });
  return expected;
}

}  // namespace

TEST_CASE("NCCL ranks conform") {
  auto* const raw = of_one();
  {
    auto comm = pith::nccl_communicator(raw);
    conformance::check(pith::cuda_executor(), comm);
    CHECK_NOTHROW(comm.check());
  }
  ncclCommDestroy(raw);
}

TEST_CASE("NCCL ranks with one device each conform") {
  for (unsigned ranks : {2u, 3u, 4u}) {
    support::run_on_devices(ranks, [](pith::cuda_executor const& exec, support::nccl_rank& rank) {
      auto comm = pith::nccl_communicator(rank.get());
      conformance::check(exec, comm);
      CHECK_NOTHROW(comm.check());
    });
  }
}

TEST_CASE("several ranks have the bits of ranks on the host, in a graph as well") {
  for (unsigned ranks : {2u, 4u}) {
    auto const expected = expected_means(ranks);
    support::run_on_devices(ranks, [&](pith::cuda_executor const& exec, support::nccl_rank& rank) {
      auto comm = pith::nccl_communicator(rank.get());
      CHECK(means(exec, comm, at_once()) == expected[comm.rank()]);
      CHECK(means(exec, comm, one_by_one()) == expected[comm.rank()]);
      CHECK(means(exec, comm, replayed(exec.stream(), one_by_one())) == expected[comm.rank()]);
    });
  }
}

TEST_CASE("a rank that waits for a missing rank continues when another thread aborts the communicator") {
  support::run_on_devices(2, [](pith::cuda_executor const& exec, support::nccl_rank& rank) {
    auto comm = pith::nccl_communicator(rank.get());
    if (comm.rank() == 1) return;
    auto const x = conformance::put(exec, std::vector<float>(5, 1));
    auto sum = comm.all_reduce(exec, x.view(), pith::reduction::sum);
    CHECK_FALSE(sum.test(exec));
    sum.wait(exec);
    auto const rescuer = std::jthread([&] { comm.abort(); });
    exec.wait();
    rank.forget();
  });
}

TEST_CASE("buckets that travel beside the stream have the bits of seq, in a graph as well") {
  auto alone = pith::self_communicator();
  auto const expected = means(pith::seq, alone, at_once());
  auto const stream = support::own_stream();
  auto const exec = pith::on(stream.get());
  auto* const raw = of_one();
  {
    auto comm = pith::nccl_communicator(raw);
    CHECK(means(exec, comm, at_once()) == expected);
    CHECK(means(exec, comm, one_by_one()) == expected);
    CHECK(means(exec, comm, replayed(stream.get(), one_by_one())) == expected);
    auto in_order = pith::nccl_communicator(raw, stream.get());
    CHECK(means(exec, in_order, one_by_one()) == expected);
  }
  ncclCommDestroy(raw);
}

TEST_CASE("every NCCL call throws after abort()") {
  auto comm = pith::nccl_communicator(of_one());
  comm.abort();
  CHECK_THROWS_WITH_AS(comm.check(), "pith::nccl_communicator: the communicator was aborted: make another one",
                       pith::communication_error);
  CHECK_THROWS_WITH_AS(conformance::gathers(pith::cuda_executor(), comm, 5),
                       "pith::nccl_communicator: the communicator was aborted: make another one",
                       pith::communication_error);
}

TEST_CASE("bad arguments are refused in words") {
  auto* const raw = of_one();
  {
    auto comm = pith::nccl_communicator(raw);
    auto const none = pith::device_span<std::byte>();
    CHECK_THROWS_WITH_AS(comm.broadcast(pith::cuda_executor(), none, 1),
                         "pith::nccl_communicator::broadcast: 'root' must be below 1, got 1", std::invalid_argument);
  }
  ncclCommDestroy(raw);
}
