// tests/comm/nccl_order_test.cpp — what follows what on the streams of an exchange over NCCL, whose calls and those of
// CUDA are queues on the host here: what no event orders runs in the worst order.
#include <pith/adaptor/identity.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/nccl.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "comm/conformance.hpp"
#include "support/queued_cuda.hpp"
#include "support/queued_nccl.hpp"

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

using pith::gather;
using support::queued_device, support::queued_executor, support::turn;

static_assert(pith::calls_of<pith::nccl_communicator, queued_executor> == pith::optional_calls::all());

namespace {

constexpr auto all_in_one = std::numeric_limits<std::size_t>::max();
constexpr turn turns[] = {turn::first, turn::last, turn::drawn};

std::vector<pith::tensor_spec> const tensors = {{"weight", {40 * 24, 40}}, {"bias", {40}}, {"none", {0}},
                                                {"head", {24 * 7, 24}},    {"scale", {1}}, {"last", {300}}};

std::vector<float> gradient(std::size_t n, unsigned rank, int step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = static_cast<float>(static_cast<int>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 33) - 16) / 16;
  }
  return g;
}

/// Steps by one call.
struct at_once {
  template <class E, class Exchange>
  void operator()(E const& exec, Exchange& exchange, pith::span_on<E, float> g, std::vector<float> const& from) const {
    exec.upload(g.data(), from.data(), g.size_bytes());
    exchange.all_reduce_mean(g);
  }
};
/// Steps whose tensors are written one by one.
struct one_by_one {
  template <class E, class Exchange>
  void operator()(E const& exec, Exchange& exchange, pith::span_on<E, float> g, std::vector<float> const& from) const {
    exchange.begin(g);
    auto first = g.size();
    for (auto i = tensors.size(); i-- > 0;) {
      auto const n = tensors[i].dims.n;
      first -= n;
      exec.upload(g.data() + first, from.data() + first, n * sizeof(float));
      exchange.ready(i);
    }
    exchange.wait();
  }
};

/// What a rank has after some steps between which the host waits for nothing: all means, and the states.
template <pith::executor E, class Comm, class C, class Step>
std::vector<std::byte> run_steps(E const& exec, Comm& comm, C const& codec, pith::exchange_options const& options,
                                 Step const& step) {
  constexpr int steps = 3;
  auto exchange = pith::make_exchange<float>(exec, comm, tensors, pith::any_codec<float, E>(codec), options);
  auto const n = exchange.size();
  auto const g = pith::buffer<float, E>(exec, n), means = pith::buffer<float, E>(exec, n * steps);
  for (int t = 0; t < steps; ++t) {
    step(exec, exchange, g.view(), gradient(n, comm.rank(), t));
    exec.copy(means.data() + static_cast<unsigned>(t) * n, g.data(), g.size_bytes());
  }
  auto all = std::vector<std::byte>(means.size_bytes());
  exec.download(all.data(), means.data(), all.size());
  auto const state = exchange.export_state();
  all.insert(all.end(), state.begin() + sizeof(std::uint64_t), state.end());  // after the name of the executor
  return all;
}

using outcomes = std::vector<std::vector<std::byte>>;

template <class C>
outcomes expected(unsigned ranks, C const& codec, gather how) {
  auto all = outcomes(ranks);
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    all[comm.rank()] = run_steps(pith::seq, comm, codec, {3, how, all_in_one}, at_once());
  });
  return all;
}

/// f(executor, communicator) of each rank; its streams take turns so.
template <class F>
void run_queued(unsigned ranks, turn how, F const& f) {
  pith::run_ranks(ranks, [&](pith::thread_communicator threads) {
    queued_device::current().take_turns(how, threads.rank());
    auto stream = CUstream_st();
    auto raw = ncclComm(threads);
    auto comm = pith::nccl_communicator(&raw);
    f(queued_executor(&stream), comm);
  });
}

template <class C, class Step>
outcomes queued(unsigned ranks, turn how, C const& codec, pith::exchange_options const& options, Step const& step) {
  auto all = outcomes(ranks);
  run_queued(ranks, how, [&](queued_executor const& exec, pith::nccl_communicator& comm) {
    all[comm.rank()] = run_steps(exec, comm, codec, options, step);
  });
  return all;
}

template <class C>
void check_all_orders(C const& codec, gather how = gather::padded) {
  auto const name = codec.name();
  CAPTURE(name);
  for (unsigned ranks : {1u, 2u, 3u}) {
    auto const means = expected(ranks, codec, how);
    for (auto order : turns) {
      for (std::size_t bytes : {std::size_t{0}, std::size_t{700}, all_in_one}) {
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(order));
        CAPTURE(bytes);
        CHECK(queued(ranks, order, codec, {3, how, bytes}, at_once()) == means);
        CHECK(queued(ranks, order, codec, {3, how, bytes}, one_by_one()) == means);
      }
    }
  }
}

/// A stream goes on as far as it can while others stand still.
void go_on(CUstream_st& stream) {
  while (stream.can_go_on()) stream.go_on();
}

/// An exchange of three tensors, a bucket each, on two streams that go on when the test says so. A sign and a scale of
/// what is not all of one size are something else.
struct standing_exchange {
  static constexpr std::size_t n = 64;
  using exchange_type = pith::gradient_exchange<float, queued_executor, pith::nccl_communicator>;

  explicit standing_exchange(pith::thread_communicator threads) : raw(threads) {
    exec.upload(g.data(), start.data(), g.size_bytes());
    exchange.measure_gradients(squares.data());
    exec.wait();
    exchange.begin(g.view());
  }

  /// |g|^2 is measured where a tensor is encoded.
  bool is_encoded(std::size_t tensor) const { return squares.data()[tensor] > 0; }
  bool is_decoded(std::size_t tensor) const { return g.data()[tensor * n] != start[tensor * n]; }

  CUstream_st stream, transfers;
  queued_executor exec = queued_executor(&stream);
  ncclComm raw;
  pith::nccl_communicator comm = pith::nccl_communicator(&raw, &transfers);
  std::vector<float> const start = gradient(3 * n, 0, 0);
  pith::buffer<float, queued_executor> g = {exec, 3 * n};
  pith::buffer<double, queued_executor> squares = {exec, 3};
  exchange_type exchange = {exec,
                            comm,
                            {{"first", {n}}, {"second", {n}}, {"third", {n}}},
                            pith::any_codec<float, queued_executor>(pith::scaled_sign()),
                            {.bucket_bytes = 0}};
};

}  // namespace

TEST_CASE("calls of NCCL conform in any order that events allow") {
  for (unsigned ranks : {1u, 2u, 3u, 4u}) {
    for (auto order : turns)
      run_queued(ranks, order, [](auto const& exec, auto& comm) { conformance::check(exec, comm); });
  }
}

TEST_CASE("an exchange has the bits of one over threads in any order that events allow") {
  check_all_orders(pith::identity());
  check_all_orders(pith::error_feedback(pith::top_k(0.1) | pith::qsgd<4>()));
  check_all_orders(pith::error_feedback(pith::reduce_scatter(pith::qsgd<8>())));
}
TEST_CASE("exchanges of dependent rounds have the bits of those over threads in any order that events allow") {
  check_all_orders(pith::error_feedback(pith::power_sgd(2)));
  check_all_orders(pith::two_shot(pith::scaled_sign(), pith::error_feedback(pith::scaled_sign())));
  check_all_orders(pith::g_top_k(0.1));
}
TEST_CASE("exchanges with two rounds in flight have the bits of those over threads in any order that events allow") {
  check_all_orders(pith::ring(pith::qsgd<8>()));
}
TEST_CASE("exchanges among groups of ranks have the bits of those over threads in any order that events allow") {
  check_all_orders(pith::hierarchical(pith::qsgd<8>(), pith::error_feedback(pith::scaled_sign()), 1));
}
TEST_CASE("exchanges of variable-rate payloads have the bits of those over threads in any order that events allow") {
  auto const codec = pith::error_feedback(pith::threshold(0.5, 0.5));
  for (auto how : {gather::exact, gather::predicted}) check_all_orders(codec, how);
}

TEST_CASE("the next bucket is encoded and the previous one decoded while a bucket is in flight") {
  pith::run_ranks(1, [](pith::thread_communicator threads) {
    auto own = standing_exchange(threads);
    for (std::size_t i : {2u, 1u, 0u}) own.exchange.ready(i);
    go_on(own.stream);
    CHECK((own.is_encoded(2) && own.is_encoded(1) && !own.is_encoded(0)));  // whose memory is that of 2
    CHECK_FALSE(own.is_decoded(2));
    go_on(own.transfers);
    go_on(own.stream);
    CHECK((own.is_encoded(0) && own.is_decoded(2) && !own.is_decoded(1)));
    own.exchange.wait();
    own.exec.wait();
    CHECK((own.is_decoded(1) && own.is_decoded(0)));
  });
}

TEST_CASE("work that the backward pass enqueues does not wait for a transfer in flight") {
  pith::run_ranks(1, [](pith::thread_communicator threads) {
    auto own = standing_exchange(threads);
    own.exchange.ready(2);
    own.exec.fill(own.g.data(), std::byte{}, standing_exchange::n * sizeof(float));
    go_on(own.stream);
    CHECK(own.stream.is_idle());
    CHECK_FALSE(own.transfers.is_idle());
    own.exchange.wait();
    own.exec.wait();
    CHECK(own.is_decoded(2));
  });
}

TEST_CASE("the host waits for nothing in a step") {
  pith::run_ranks(1, [](pith::thread_communicator threads) {
    auto own = standing_exchange(threads);
    auto const before = queued_device::current().waits();
    own.exchange.ready(2);
    own.exchange.wait();
    CHECK(queued_device::current().waits() == before);
    own.exec.wait();
    CHECK(queued_device::current().waits() == before + 1);
  });
}

TEST_CASE("an NCCL request that is destroyed without wait() orders the stream after its call") {
  run_queued(2, turn::first, [](queued_executor const& exec, pith::nccl_communicator& comm) {
    auto const x = conformance::put(exec, std::vector<float>(5, static_cast<float>(1 + comm.rank())));
    static_cast<void>(comm.all_reduce(exec, x.view(), pith::reduction::sum));
    auto const y = pith::buffer<float, queued_executor>(exec, 5);
    exec.copy(y.data(), x.data(), x.size_bytes());
    CHECK(conformance::fetched(exec, y) == std::vector<float>(5, 3));
  });
}

TEST_CASE("is_idle() leaves no CUDA error when a transfer is in flight") {
  auto const transfers = pith::detail::side_stream();
  transfers.get()->give({});
  transfers.get()->give({});
  CHECK_FALSE(transfers.is_idle());
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(transfers.is_idle());
}

TEST_CASE("parts of a communicator share its stream") {
  run_queued(2, turn::first, [](queued_executor const&, pith::nccl_communicator& comm) {
    auto const before = queued_device::current().streams();
    auto const part = comm.split(0);
    CHECK(queued_device::current().streams() == before);
  });
}

TEST_CASE("an error of NCCL aborts the communicator and all its parts, and a call of each throws") {
  pith::run_ranks(1, [](pith::thread_communicator threads) {
    auto stream = CUstream_st();
    auto* const raw = new ncclComm(threads);  // an abort deletes it
    auto comm = pith::nccl_communicator(raw, &stream);
    auto part = comm.split(0);
    { auto const gone = comm.split(0); }
    CHECK_NOTHROW(part.check());
    raw->error = ncclInternalError;
    CHECK_THROWS_WITH_AS(part.check(), "pith::nccl_communicator: an earlier call: an error of threads",
                         pith::communication_error);
    CHECK((comm.is_aborted() && part.is_aborted()));
    CHECK_NOTHROW(comm.abort());
  });
}

TEST_CASE("transfers on the executor's own stream are in its order") {
  pith::run_ranks(2, [](pith::thread_communicator threads) {
    auto stream = CUstream_st();
    auto raw = ncclComm(threads);
    auto comm = pith::nccl_communicator(&raw, &stream);
    conformance::check(queued_executor(&stream), comm);
  });
}

TEST_CASE("synchronize() waits for a stream until the timeout at most, then aborts the communicator and throws") {
  pith::run_ranks(1, [](pith::thread_communicator threads) {
    auto stream = CUstream_st();
    auto const exec = queued_executor(&stream);
    auto comm = pith::nccl_communicator(new ncclComm(threads), &stream);  // abort() deletes it
    stream.give({});
    CHECK_NOTHROW(comm.synchronize(exec));
    CHECK(stream.is_idle());
    auto const of_lost_rank = std::make_shared<std::size_t>(0);
    stream.give({nullptr, of_lost_rank, 1});
    CHECK_THROWS_WITH_AS(comm.synchronize(exec, std::chrono::milliseconds(20)),
                         "pith::nccl_communicator::synchronize did not end within 0.02 s: a rank has run out of "
                         "batches, or is gone or stuck: give all ranks equally many batches",
                         pith::communication_error);
    CHECK_THROWS_WITH_AS(comm.check(), "pith::nccl_communicator: the communicator was aborted: make another one",
                         pith::communication_error);
    *of_lost_rank = 1;  // as a kernel of NCCL's ends that is aborted
    CHECK_THROWS_AS(comm.synchronize(exec, std::chrono::seconds(0)), std::invalid_argument);
  });
}
