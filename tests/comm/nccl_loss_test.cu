// tests/comm/nccl_loss_test.cu — NCCL's ranks lose one: the others throw by the timeout, and go on from their last step.
#include <pith/comm/nccl.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <support/device.hpp>
#include <support/nccl_ranks.hpp>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;

namespace {

std::vector<pith::tensor_spec> const tensors = {{"first", {3000}}, {"second", {7}}};
constexpr unsigned ranks = 3, lost = 1, complete = 2, steps = 4;

/// The ways in which a rank is lost in a step.
enum class loss { returns, returns_after_ready, throws };

std::vector<float> gradient(std::size_t n, unsigned rank, unsigned step) {
  return support::narrow<float>(support::normal_vector(n, 10 + step + 7 * rank));
}

template <pith::executor E, class Comm>
auto exchange_of(E const& exec, Comm& comm) {
  auto const codec = pith::any_codec<float, E>(pith::error_feedback(pith::top_k(0.05)));
  return pith::make_exchange<float>(exec, comm, tensors, codec, {.seed = 5, .is_recoverable = true});
}

/// The mean of a step.
template <pith::executor E, class Exchange>
std::vector<float> step_of(E const& exec, Exchange& exchange, unsigned rank, unsigned step) {
  auto own = gradient(exchange.size(), rank, step);
  auto const g = pith::buffer<float, E>(exec, own.size());
  exec.upload(g.data(), own.data(), g.size_bytes());
  exchange.all_reduce_mean(g.view());
  exec.download(own.data(), g.data(), g.size_bytes());
  return own;
}

/// The last means of steps on the host that nothing interrupts.
std::vector<float> uninterrupted() {
  auto last = std::vector<float>();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto exchange = exchange_of(pith::seq, comm);
    for (unsigned t = 0; t < steps; ++t) {
      auto const mean = step_of(pith::seq, exchange, comm.rank(), t);
      if (comm.rank() == 0) last = mean;
    }
  });
  return last;
}

/// The last means of host ranks that go on from the states of NCCL's ranks.
std::vector<float> resumed(std::vector<std::vector<std::byte>> const& states) {
  auto last = std::vector<float>();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto exchange = exchange_of(pith::seq, comm);
    exchange.import_state(pith::span<std::byte const>(states[comm.rank()]));
    for (unsigned t = complete; t < steps; ++t) {
      auto const mean = step_of(pith::seq, exchange, comm.rank(), t);
      if (comm.rank() == 0) last = mean;
    }
  });
  return last;
}

/// A rank that leaves in its step, after it has saved its state.
template <class Exchange>
void leave(pith::cuda_executor const& exec, Exchange& exchange, loss how) {
  if (how == loss::throws) throw std::runtime_error("out of memory");
  if (how == loss::returns) return;
  auto const g = pith::buffer<float, pith::cuda_executor>(exec, exchange.size());
  exchange.begin(g.view());
  exchange.ready(0);
}

/// A rank that stays: one error by the timeout, and then its state after the last complete step.
template <class Exchange>
std::vector<std::byte> survive(pith::cuda_executor const& exec, pith::nccl_communicator& comm, Exchange& exchange) {
  auto own = gradient(exchange.size(), comm.rank(), complete);
  auto const g = pith::buffer<float, pith::cuda_executor>(exec, own.size());
  exec.upload(g.data(), own.data(), g.size_bytes());
  exchange.all_reduce_mean(g.view());
  auto const begin = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(comm.synchronize(exec, 1s), pith::communication_error);
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
  CHECK_THROWS_AS(comm.check(), pith::communication_error);
  return exchange.export_state(1);
}

}  // namespace

TEST_CASE("survivors throw by the timeout, and resume from the last complete step") {
  if (!support::has_devices(ranks)) return;
  auto const expected = uninterrupted();
  for (auto const how : {loss::returns, loss::returns_after_ready, loss::throws}) {
    CAPTURE(static_cast<int>(how));
    auto states = std::vector<std::vector<std::byte>>(ranks);
    support::run_on_devices(ranks, [&](pith::cuda_executor const& exec, support::nccl_rank& rank) {
      auto comm = pith::nccl_communicator(rank.get());
      auto exchange = exchange_of(exec, comm);
      for (unsigned t = 0; t < complete; ++t) step_of(exec, exchange, comm.rank(), t);
      if (comm.rank() != lost) {
        states[comm.rank()] = survive(exec, comm, exchange);
        return rank.forget();
      }
      states[lost] = exchange.export_state();
      try {
        leave(exec, exchange, how);
      } catch (std::runtime_error const&) {  // the rank's own error
      }
      comm.abort();
      rank.forget();
    });
    CHECK(resumed(states) == expected);
  }
}
