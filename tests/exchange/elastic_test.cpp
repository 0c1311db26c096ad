// tests/exchange/elastic_test.cpp — jobs that lose ranks, shrink and grow, and go on.
#include <pith/adaptor/rated.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "exchange/elastic_schedule.hpp"
#include "support/parsed.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using elastic::job;
using pith::seq;

std::vector<pith::tensor_spec> const elastic_tensors = {
    {"weight", {96, 12}}, {"bias", {12}}, {"none", {0}}, {"head", {41}}};

std::vector<float> elastic_gradient(unsigned rank, unsigned step) {
  auto g = std::vector<float>(149);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>((i * 29 + rank * 13 + step * 7) % 23) - 11;
  return g;
}

/// What all ranks received, and what they saved.
struct course {
  std::vector<std::vector<float>> means;
  job states;
};

/// Steps first .. last - 1 of a job that begins with these states, or again.
template <class Make>
course steps(Make const& make, unsigned ranks, job const& states, unsigned first, unsigned last) {
  auto made = course{{}, job(ranks)};
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto exchange = make(comm);
    if (!states.empty()) exchange.import_state(states[comm.rank()]);
    for (auto step = first; step < last; ++step) {
      auto g = elastic_gradient(comm.rank(), step);
      exchange.all_reduce_mean(g);
      if (comm.rank() == 0) made.means.push_back(g);
    }
    made.states[comm.rank()] = exchange.export_state();
  });
  return made;
}

/// Resumed with as many ranks it goes on bit by bit; and it goes on with fewer and with more.
template <class Make>
void check_goes_on(Make const& make, unsigned multiple = 1) {
  auto const whole = steps(make, 4, {}, 0, 6), begun = steps(make, 4, {}, 0, 3);
  CHECK(pith::reshard(begun.states, 4) == begun.states);
  auto const resumed = steps(make, 4, pith::reshard(begun.states, 4), 3, 6);
  CHECK(resumed.states == whole.states);
  CHECK(std::equal(resumed.means.begin(), resumed.means.end(), whole.means.begin() + 3));
  for (auto const ranks : {multiple, 3 * multiple, 7u - 7 % multiple}) {
    auto const next = steps(make, ranks, pith::reshard(begun.states, ranks), 3, 5);
    CHECK(steps(make, 4, pith::reshard(next.states, 4), 5, 6).states.size() == 4);
  }
}

char const* const elastic_codecs[] = {"ef(top_k(0.25)|qsgd<4>)",
                                      "ef(top_k(0.25),momentum_correction(0.9))",
                                      "ef(threshold(0.5,0.3))",
                                      "ef(sidco(0.1))",
                                      "ef(power_sgd(2))",
                                      "ef(one_sided_power_sgd(2))",
                                      "ef(scaled_sign(8),ef21(0.1))",
                                      "ef(scaled_sign,two_sided(scaled_sign(8)))",
                                      "ef(scaled_sign,two_sided(power_sgd(2),ef_sign(0.1)))",
                                      "ef(sign,signum_momentum(0.9),unverified)",
                                      "ef(random_k(0.3,none,own),mean_residual(0.9,0.5))",
                                      "ef(ok_top_k(0.2))",
                                      "ef(g_top_k(0.2))",
                                      "ef(two_shot(scaled_sign,ef(power_sgd(1))))",
                                      "ef(two_shot(scaled_sign,ef(sidco(0.1),momentum_correction(0.9))))",
                                      "ring(qsgd<8>)",
                                      "bypass(ef(hadamard(64)|scaled_sign),64)",
                                      "hadamard(64)|summed_terngrad",
                                      "summed_terngrad",
                                      "identity"};

}  // namespace

TEST_CASE("a job goes on from the states of as many ranks bit by bit, and from those of others") {
  for (auto const* const text : elastic_codecs) {
    CAPTURE(text);
    auto const codec = pith::parse<float>(text);
    check_goes_on(
        [&](auto& comm) { return pith::make_exchange<float>(seq, comm, elastic_tensors, codec, {.seed = 5}); });
  }
  for (auto const* const text :
       {"hierarchical(qsgd<8>,ef(top_k(0.2)),2)", "hierarchical(qsgd<8>,two_shot(scaled_sign,ef(sidco(0.2))),2)"}) {
    CAPTURE(text);
    auto const codec = pith::parse<float>(text);
    check_goes_on(
        [&](auto& comm) { return pith::make_exchange<float>(seq, comm, elastic_tensors, codec, {.seed = 5}); }, 2);
  }
}

TEST_CASE("gradients of half and double go on too") {
  auto const codec = pith::error_feedback(pith::top_k(0.25));
  auto const check = [&](auto zero) {
    using In = decltype(zero);
    auto states = job(4);
    pith::run_ranks(4, [&](pith::thread_communicator comm) {
      auto exchange = pith::make_exchange<In>(seq, comm, elastic_tensors, codec);
      auto g = std::vector<In>();
      for (auto const x : elastic_gradient(comm.rank(), 0)) g.push_back(pith::element_cast<In>(x));
      exchange.all_reduce_mean(g);
      states[comm.rank()] = exchange.export_state();
    });
    auto const next = pith::reshard(states, 3);
    pith::run_ranks(3, [&](pith::thread_communicator comm) {
      auto exchange = pith::make_exchange<In>(seq, comm, elastic_tensors, codec);
      exchange.import_state(next[comm.rank()]);
      CHECK(exchange.export_state() == next[comm.rank()]);
    });
  };
  check(pith::half());
  check(double());
}

TEST_CASE("an adaptive job goes on with its controller, which all ranks share") {
  auto const codec = pith::error_feedback(pith::rated(pith::top_k(0.25)));
  auto const controller = pith::l_greco({.rates = {0.5, 0.25, 0.1}, .reference = 0.25, .interval = 2});
  auto const make = [&](auto& comm) {
    auto exchange = pith::make_adaptive_exchange<float>(seq, comm, elastic_tensors, codec, controller);
    exchange.set_learning_rate(0.1);
    return exchange;
  };
  check_goes_on(make);
  auto apart = steps(make, 2, {}, 0, 3).states;
  apart[1] = steps(make, 2, {}, 0, 4).states[1];
  CHECK_THROWS_WITH_AS(
      pith::reshard(apart, 2),
      "pith::reshard: states[1]: the controller's state must be equal on all ranks, got another than states[0]: pass "
      "states that were saved after the same step",
      std::invalid_argument);
}

TEST_CASE("states after different steps are refused with the tensor") {
  auto const make = [](auto& comm) { return pith::make_exchange<float>(seq, comm, elastic_tensors, pith::identity()); };
  auto apart = steps(make, 2, {}, 0, 3).states;
  apart[1] = steps(make, 2, {}, 0, 4).states[1];
  CHECK_THROWS_WITH_AS(
      pith::reshard(apart, 2),
      "pith::reshard: states[1]: the replicated state must be equal on all ranks, got another than states[0] of "
      "tensor \"weight\" of 96 elements in 12 rows, codec identity: pass states that were saved after the same step",
      std::invalid_argument);
}

TEST_CASE("residuals and running means are conserved while ranks come and go") {
  for (auto const& what : elastic::codec_cases) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      CAPTURE(what.codec);
      CAPTURE(seed);
      elastic::schedule(what, seed).run();
    }
  }
}
