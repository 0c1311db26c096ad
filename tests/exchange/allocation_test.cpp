// tests/exchange/allocation_test.cpp — a step allocates nothing.
#include <pith/adaptor/checked.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/control/accordion.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "support/allocations.hpp"
#include "support/parsed.hpp"

using support::allocations;

TEST_CASE("the counter counts") {
  auto const before = allocations.load();
  ::operator delete(::operator new(100));  // a call, which no compiler may leave out as it may a new-expression
  CHECK(allocations.load() == before + 1);
}

TEST_CASE("a step of an exchange allocates nothing, whatever the codec") {
  for (std::string const text :
       {"identity", "cast<half>", "scaled_sign", "scaled_sign(64)", "qsgd<8>", "qsgd<4>(7,0,max)", "top_k(0.1)",
        "ef(top_k(0.1)|qsgd<8>)", "random_k(0.1)", "ef(power_sgd(2))", "power_sgd(2)|qsgd<8>", "damped(qsgd<2>)",
        "bypass(ef(scaled_sign),100)", "ef(top_k(0.1),momentum_correction(0.9,nesterov,clip_norm(1)))",
        "ef(power_sgd(2),own_residual)", "ef(power_sgd(2,2,bfloat16))", "ef(top_k(0.1),ef21(0.1))",
        "ef(scaled_sign,two_sided(top_k(0.1)))", "ef(hierarchical(qsgd<8>,ef(top_k(0.1)),1))"}) {
    CAPTURE(text);
    auto comm = pith::self_communicator();
    auto exchange = pith::gradient_exchange<float, pith::seq_executor, pith::self_communicator>(
        pith::seq, comm, {{"weight", {64 * 32, 64}}, {"bias", {64}}}, pith::parse<float>(text));
    auto gradient = std::vector<float>(exchange.size(), 1.5f);
    auto const before = allocations.load();
    exchange.all_reduce_mean(pith::span(gradient));
    CHECK(allocations.load() == before);
  }
}

TEST_CASE("steps of many buckets allocate nothing once there is a thread for them") {
  for (std::string const text :
       {"identity", "ef(top_k(0.1)|qsgd<8>)", "ef(power_sgd(2))", "ef(two_shot(scaled_sign))"}) {
    CAPTURE(text);
    auto comm = pith::self_communicator();
    auto trace = pith::exchange_trace();
    auto exchange = pith::make_exchange<float>(
        pith::seq, comm, {{"weight", {64 * 32, 64}}, {"bias", {64}}}, pith::parse<float>(text),
        {.bucket_bytes = 0, .is_weighted = true, .trace = &trace, .is_recoverable = true});
    auto gradient = std::vector<float>(exchange.size(), 1.5f);
    for (int step = 0; step < 3; ++step) {
      auto const before = allocations.load();
      exchange.begin(gradient, 2);
      exchange.ready(1);
      exchange.ready(0);
      exchange.wait();
      if (step > 0) CHECK(allocations.load() == before);
    }
  }
}

TEST_CASE("a step of an adaptive exchange that does not change rates allocates nothing, even directly after a change") {
  for (auto const is_recoverable : {false, true}) {
    auto comm = pith::self_communicator();
    auto const codec = pith::error_feedback(pith::rated(pith::top_k(0.1)));
    auto exchange = pith::make_adaptive_exchange<float>(
        pith::seq, comm, {{"weight", {64 * 32, 64}}, {"bias", {64}}}, codec,
        pith::accordion({.high_rate = 0.5, .low_rate = 0.1, .interval = 2}), {.is_recoverable = is_recoverable});
    auto const warm = is_recoverable ? 3 : 2;  // the first report makes room for two tensors, in each copy of it too
    auto gradient = std::vector<float>(exchange.size());
    for (int step = 0; step < 8; ++step) {
      std::fill(gradient.begin(), gradient.end(), 1.5f);
      auto const was = exchange.codecs()[0].name();
      auto const before = allocations.load();
      exchange.all_reduce_mean(pith::span(gradient));
      auto const after = allocations.load();
      auto const is_changed = was != exchange.codecs()[0].name();
      CHECK(is_changed == (step == 0 || step == 4));  // the first rates, and the low one after the second window
      if (!is_changed && step >= warm) CHECK(after == before);
    }
  }
}

TEST_CASE("checked allocates nothing in a step") {
  auto comm = pith::self_communicator();
  auto const flag = pith::error_flag(pith::seq);
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"weight", {64 * 32, 64}}, {"bias", {64}}},
                                             pith::matrices(pith::checked(pith::top_k(0.1) | pith::qsgd<8>(), flag)));
  auto gradient = std::vector<float>(exchange.size(), 1.5f);
  auto const before = allocations.load();
  exchange.all_reduce_mean(pith::span(gradient));
  CHECK(allocations.load() == before);
}

TEST_CASE("compress and decompress allocate nothing") {
  auto const codec = pith::error_feedback(pith::top_k(0.1) | pith::qsgd<8>());
  auto const dims = pith::shape{1000};
  auto state = pith::make_state<float>(pith::seq, codec, dims);
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(codec, dims));
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims));
  auto ws = pith::workspace(pith::span(scratch));
  auto x = std::vector<float>(dims.n, 2.0f);
  auto const before = allocations.load();
  pith::compress(pith::seq, codec, pith::span(x), pith::span(payload), state, ws);
  pith::decompress(pith::seq, codec, pith::span(payload), pith::span(x), state, ws);
  CHECK(allocations.load() == before);
}
