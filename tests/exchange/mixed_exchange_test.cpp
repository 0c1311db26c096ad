// tests/exchange/mixed_exchange_test.cpp — gradients of several element types in one step.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/mixed_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>

#include <doctest/doctest.h>

#include "support/sixteenths.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace support;

namespace {

using pith::bfloat16;
using kind = pith::element_kind;

/// A bfloat16 model with float norms and one tensor of doubles.
std::vector<pith::tensor_spec> const mixed_tensors = {
    {"embedding", pith::matrix(40, 30), kind::bf16}, {"norm", {30}, kind::f32},      {"scale", {5}, kind::f64},
    {"weight", pith::matrix(30, 30), kind::bf16},    {"last norm", {30}, kind::f32}, {"empty", {0}, kind::bf16}};

auto mixed_policy() { return pith::matrices(pith::ef(pith::power_sgd(2))); }

/// The gradients of all tensors of a type in a step, one after another.
template <class In>
std::vector<In> mixed_gradient(unsigned rank, int step) {
  std::size_t n = 0;
  for (auto const& t : mixed_tensors) n += t.kind == pith::kind_of<In>() ? t.dims.n : 0;
  return narrow<In>(widen(sixteenths(n, rank, step)));
}

/// A rank's gradients of all types.
struct mixed_gradients {
  std::vector<float> f;
  std::vector<double> d;
  std::vector<bfloat16> b;

  mixed_gradients(unsigned rank, int step)
      : f(mixed_gradient<float>(rank, step)),
        d(mixed_gradient<double>(rank, step)),
        b(mixed_gradient<bfloat16>(rank, step)) {}

  /// Calls f(i, gradient) for each tensor.
  template <class F>
  void for_each(F const& call) {
    std::size_t of_f = 0, of_d = 0, of_b = 0;
    for (std::size_t i = 0; i < mixed_tensors.size(); ++i) {
      auto const n = mixed_tensors[i].dims.n;
      if (mixed_tensors[i].kind == kind::f32) call(i, pith::span<float>(f).subspan(std::exchange(of_f, of_f + n), n));
      if (mixed_tensors[i].kind == kind::f64) call(i, pith::span<double>(d).subspan(std::exchange(of_d, of_d + n), n));
      if (mixed_tensors[i].kind == kind::bf16)
        call(i, pith::span<bfloat16>(b).subspan(std::exchange(of_b, of_b + n), n));
    }
  }
};

/// The means of one type, by an exchange of its tensors alone.
template <class In>
void exchange_alone(pith::thread_communicator comm, std::vector<std::vector<In>>& steps, double weight) {
  auto own = std::vector<pith::tensor_spec>();
  for (auto const& t : mixed_tensors)
    if (t.kind == pith::kind_of<In>()) own.push_back({t.name, t.dims});
  auto exchange = pith::make_exchange<In>(pith::seq, comm, own, mixed_policy(), {.seed = 5, .is_weighted = true});
  for (auto& g : steps) exchange.all_reduce_mean(pith::span<In>(g), weight);
}

}  // namespace

TEST_CASE("a mixed exchange has the bits of an exchange per type, in any order of readiness") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto const weight = comm.rank() + 1.0;
    auto exchange = pith::make_mixed_exchange<float, bfloat16, double>(pith::seq, comm, mixed_tensors, mixed_policy(),
                                                                       {.seed = 5, .is_weighted = true});
    auto random = std::mt19937(comm.rank());
    auto of_f = std::vector<std::vector<float>>();
    auto of_d = std::vector<std::vector<double>>();
    auto of_b = std::vector<std::vector<bfloat16>>();
    auto steps = std::vector<mixed_gradients>();
    for (int step = 0; step < 4; ++step) {
      auto& g = steps.emplace_back(comm.rank(), step);
      of_f.push_back(g.f), of_d.push_back(g.d), of_b.push_back(g.b);
      auto order = std::vector<std::size_t>(mixed_tensors.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      exchange.begin(weight);
      for (auto const next : order)
        g.for_each([&](std::size_t i, auto gradient) { i == next ? exchange.ready(i, gradient) : void(); });
      exchange.wait();
    }
    exchange_alone(comm, of_f, weight), exchange_alone(comm, of_d, weight), exchange_alone(comm, of_b, weight);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      CHECK(same_bytes(steps[s].f, of_f[s]));
      CHECK(same_bytes(steps[s].d, of_d[s]));
      CHECK(same_bytes(steps[s].b, of_b[s]));
    }
    CHECK(exchange.of<bfloat16>().report().tensors.size() == 3);
    CHECK(exchange.number_of(4) == 1);
  });
}

TEST_CASE("a mixed exchange refuses gradients and kinds of other types, and a step without a gradient") {
  auto comm = pith::self_communicator();
  auto const make = [&](std::vector<pith::tensor_spec> const& tensors) {
    return pith::make_mixed_exchange<float, bfloat16>(pith::seq, comm, tensors, mixed_policy());
  };
  CHECK_THROWS_WITH_AS(
      make({{"w", {8}}}),
      "pith::mixed_exchange: the kind of tensor \"w\" must be that of a type of the exchange, got unknown",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      make({{"w", {8}, kind::f64}}),
      "pith::mixed_exchange: the kind of tensor \"w\" must be that of a type of the exchange, got double",
      std::invalid_argument);
  auto exchange = make({{"w", {8}, kind::bf16}, {"norm", {2}, kind::f32}});
  auto norm = std::vector<float>(2);
  auto w = std::vector<bfloat16>(8);
  exchange.begin();
  CHECK_THROWS_WITH_AS(
      exchange.ready(0, pith::span<float>(norm)),
      "pith::mixed_exchange::ready: the gradient of tensor \"w\" must have elements of bfloat16, got float",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(exchange.ready(2, pith::span<float>(norm)),
                       "pith::mixed_exchange::ready: tensor must be below 2, got 2", std::invalid_argument);
  exchange.ready(0, pith::span<bfloat16>(w));
  CHECK_THROWS_WITH_AS(exchange.ready(0, pith::span<bfloat16>(w)),
                       "pith::mixed_exchange::ready: the gradient of tensor \"w\" is already ready",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(exchange.wait(),
                       "pith::mixed_exchange: wait() needs the gradient of tensor 1, \"norm\": call ready(1, gradient) "
                       "first",
                       std::invalid_argument);
  exchange.ready(1, pith::span<float>(norm));
  CHECK_NOTHROW(exchange.wait());
  exchange.begin();
  exchange.ready(1, pith::span<float>(norm));
  exchange.skip();
  CHECK_THROWS_AS(exchange.wait(), std::invalid_argument);
  CHECK_NOTHROW(exchange.begin());
}

TEST_CASE("all ranks throw if the kind of a tensor is wrong on one rank") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto const tensors = std::vector<pith::tensor_spec>{{"w", {8}, comm.rank() == 1 ? kind::f64 : kind::bf16}};
    auto const make = [&] {
      return pith::make_mixed_exchange<float, bfloat16>(pith::seq, comm, tensors, mixed_policy());
    };
    if (comm.rank() == 1) {
      CHECK_THROWS_AS(make(), std::invalid_argument);
    } else {
      CHECK_THROWS_WITH_AS(make(), "pith::mixed_exchange: rank 1 has a tensor of another kind: see the error on rank 1",
                           pith::agreement_error);
    }
  });
}

TEST_CASE("a mixed exchange exports and imports the states of all types, and refuses a wrong state on all ranks") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const make = [&] {
      return pith::make_mixed_exchange<float, bfloat16, double>(pith::seq, comm, mixed_tensors, mixed_policy());
    };
    auto const step = [&](auto& exchange, int number) {
      auto g = mixed_gradients(comm.rank(), number);
      exchange.begin();
      g.for_each([&](std::size_t i, auto gradient) { exchange.ready(i, gradient); });
      exchange.wait();
      return g;
    };
    auto first = make(), second = make();
    step(first, 0), step(first, 1);
    auto const saved = first.export_state();
    auto wrong = saved;
    if (comm.rank() == 1) wrong[1].pop_back();
    auto const before = second.export_state();
    if (comm.rank() == 1) {
      CHECK_THROWS_AS(second.import_state(wrong), std::invalid_argument);
    } else {
      CHECK_THROWS_WITH_AS(second.import_state(wrong),
                           "pith::mixed_exchange::import_state: rank 1 could not load its state, and no rank has "
                           "changed: see the error on rank 1",
                           pith::agreement_error);
    }
    CHECK(second.export_state() == before);
    second.import_state(saved);
    CHECK(second.export_state() == saved);
    auto const a = step(first, 2), b = step(second, 2);
    CHECK(same_bytes(a.f, b.f));
    CHECK(same_bytes(a.d, b.d));
    CHECK(same_bytes(a.b, b.b));
  });
}

TEST_CASE("states are of the last step that all types completed, also if a rank is lost between two types") {
  // Tensors of bfloat16 have the most bytes, so their exchange comes first. Rank 1 leaves after it.
  auto saved = std::vector<std::array<std::vector<std::byte>, 2>>(2), then = saved;
  CHECK_THROWS(pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto const tensors = std::vector<pith::tensor_spec>{{"w", {800}, kind::bf16}, {"norm", {20}, kind::f32}};
    auto exchange = pith::make_mixed_exchange<float, bfloat16>(pith::seq, comm, tensors, pith::ef(pith::qsgd<8>()),
                                                               {.is_recoverable = true});
    auto const step = [&] {
      auto w = narrow<bfloat16>(widen(sixteenths(800, comm.rank())));
      auto norm = sixteenths(20, comm.rank());
      exchange.begin();
      exchange.ready(0, pith::span<bfloat16>(w));
      exchange.ready(1, pith::span<float>(norm));
      exchange.wait();
    };
    step();
    saved[comm.rank()] = exchange.export_state();
    if (comm.rank() == 1) {
      auto w = narrow<bfloat16>(widen(sixteenths(800, 1)));
      exchange.of<bfloat16>().all_reduce_mean(pith::span<bfloat16>(w));
      throw std::runtime_error("lost");
    }
    CHECK_THROWS_AS(step(), pith::communication_error);
    CHECK(exchange.has_failed());
    CHECK_THROWS_AS(exchange.begin(), std::invalid_argument);
    then[0] = exchange.export_state();
  }));
  CHECK(then[0] == saved[0]);
}

TEST_CASE("a type without tensors has no earlier states to restore") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_mixed_exchange<double, float, bfloat16>(
      pith::seq, comm, {{"w", {8}, kind::bf16}}, pith::ef(pith::qsgd<8>()), {.is_recoverable = true});
  auto const step = [&] {
    auto w = narrow<bfloat16>(widen(sixteenths(8, 0)));
    exchange.begin();
    exchange.ready(0, pith::span<bfloat16>(w));
    exchange.wait();
  };
  step();
  auto const before = exchange.export_state();
  step();
  CHECK(exchange.export_state(1) == before);
  CHECK_NOTHROW(exchange.import_state(before));
  CHECK(exchange.export_state() == before);
}

TEST_CASE("a mixed exchange refuses states of different steps on all ranks, before any change") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto exchange = pith::make_mixed_exchange<float, bfloat16>(
        pith::seq, comm, {{"w", {8}, kind::bf16}, {"norm", {2}, kind::f32}}, mixed_policy());
    auto const step = [&] {
      auto w = narrow<bfloat16>(widen(sixteenths(8, comm.rank())));
      auto norm = sixteenths(2, comm.rank());
      exchange.begin();
      exchange.ready(0, pith::span<bfloat16>(w));
      exchange.ready(1, pith::span<float>(norm));
      exchange.wait();
    };
    step();
    auto const one = exchange.export_state();
    step();
    auto const two = exchange.export_state();
    CHECK_THROWS_WITH_AS(exchange.import_state({comm.rank() == 0 ? one[0] : two[0], one[1]}),
                         doctest::Contains("rank 1 differs from rank 0 in the step of its state"),
                         pith::agreement_error);
    CHECK(exchange.export_state() == two);
  });
}

TEST_CASE("a mixed exchange gives up a step") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_mixed_exchange<float, bfloat16>(
      pith::seq, comm, {{"w", {8}, kind::bf16}, {"norm", {2}, kind::f32}}, mixed_policy());
  exchange.begin();
  exchange.abandon();
  CHECK_FALSE(exchange.has_failed());
  CHECK_THROWS_AS(exchange.wait(), std::invalid_argument);
  CHECK_NOTHROW(exchange.begin());
}

TEST_CASE("an exchange of one type refuses a tensor of another kind") {
  auto comm = pith::self_communicator();
  CHECK_THROWS_WITH_AS(pith::make_exchange<float>(pith::seq, comm, {{"w", {8}, kind::bf16}}, pith::qsgd<8>()),
                       "pith::gradient_exchange: tensor \"w\" must have elements of float, got bfloat16: use "
                       "mixed_exchange for several types",
                       std::invalid_argument);
}
