// tests/exchange/gradient_exchange_test.cpp — a model's tensors, exchanged by one call per step.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

namespace {

using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::thread_communicator>;

std::vector<pith::tensor_spec> const tensors = {
    {"weight", {40 * 24, 40}}, {"bias", {40}}, {"none", {0}}, {"head", {24 * 7, 24}}};

/// A gradient of rank r in step t; whole sixteenths, so that sums of a few are exact.
std::vector<float> gradient(std::size_t n, unsigned rank, int step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = static_cast<float>(static_cast<int>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 33) - 16) / 16;
  }
  return g;
}

/// The sum over steps of what one rank received.
std::vector<double> received(unsigned ranks, pith::any_codec<float, pith::seq_executor> const& codec, int steps) {
  auto sum = std::vector<double>();
  auto guard = std::mutex();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto ex = exchange(pith::seq, comm, tensors, codec, {.seed = 3});
    auto own = std::vector<double>(ex.size());
    for (int step = 0; step < steps; ++step) {
      auto g = gradient(ex.size(), comm.rank(), step);
      ex.all_reduce_mean(pith::span<float>(g));
      for (std::size_t i = 0; i < g.size(); ++i) own[i] += static_cast<double>(g[i]);
    }
    auto const lock = std::lock_guard(guard);
    if (sum.empty()) sum = own;
    CHECK(sum == own);  // all ranks receive the same bits
  });
  return sum;
}

/// A communicator of one rank that writes down the bytes of each sum; it gathers as that of one.
struct counting_communicator : pith::self_communicator {
  std::vector<std::size_t>* sums;

  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T> x, pith::reduction) {
    sums->push_back(x.size() * sizeof(T));
    return {};
  }
};

/// The bytes of the sums in the second step of a model.
std::vector<std::size_t> sums_in_a_step(std::vector<pith::tensor_spec> const& model,
                                        pith::any_codec<float, pith::seq_executor> const& codec) {
  auto sums = std::vector<std::size_t>();
  auto comm = counting_communicator{{}, &sums};
  auto ex = pith::make_exchange<float>(pith::seq, comm, model, codec);
  auto g = gradient(ex.size(), 0, 0);
  ex.all_reduce_mean(g);
  sums.clear();
  ex.all_reduce_mean(g);
  return sums;
}

double true_sum(unsigned ranks, int steps, std::size_t i) {
  double sum = 0;
  for (unsigned r = 0; r < ranks; ++r) {
    for (int step = 0; step < steps; ++step) sum += static_cast<double>(gradient(i + 1, r, step)[i]);
  }
  return sum / ranks;
}

}  // namespace

TEST_CASE("identity gives the exact mean") {
  for (unsigned ranks : {1u, 2u, 4u}) {
    auto const sum = received(ranks, pith::identity(), 3);
    for (std::size_t i = 0; i < sum.size(); i += 13) CHECK(sum[i] == true_sum(ranks, 3, i));
  }
}

TEST_CASE("all ranks receive the same bits, whatever the codec") {
  for (auto const* text :
       {"identity", "cast<half>", "cast<bfloat16>", "scaled_sign", "qsgd<8>", "sign", "summed_sign", "terngrad",
        "summed_terngrad", "ef(summed_terngrad,unverified)", "natural<8>", "ef(one_bit(column))",
        "ef(top_k(0.1)|qsgd<4>)", "random_k(0.25)", "ef(random_k(0.25)|cast<half>)", "ef(power_sgd(2))",
        "ef(power_sgd(2,2,bfloat16))", "bypass(ef(scaled_sign),64)"}) {
    CAPTURE(text);
    CHECK(received(3, pith::parse<float>(text), 5).size() == 40 * 24 + 40 + 24 * 7);
  }
}

TEST_CASE("a type known at compile time and its text exchange the same bits") {
  CHECK(received(3, pith::error_feedback(pith::top_k(0.1) | pith::qsgd<8>()), 4) ==
        received(3, pith::parse<float>("ef(top_k(0.1)|qsgd<8>)"), 4));
  CHECK(received(2, pith::error_feedback(pith::random_k(0.2) | pith::cast<pith::half>()), 4) ==
        received(2, pith::parse<float>("ef(random_k(0.2)|cast<half>)"), 4));
}

TEST_CASE("a policy gives each tensor its codec, and transfers are counted") {
  auto comm = pith::self_communicator();
  auto const ex =
      pith::make_exchange<float>(pith::seq, comm, tensors, pith::matrices(pith::error_feedback(pith::scaled_sign())));
  CHECK(ex.codecs()[0].name() == "ef(scaled_sign)");
  CHECK(ex.codecs()[1].name() == "identity");
  // 960 / 8 + 4 and 168 / 8 + 4 (+ 3 to align the scale), each rounded up to 8; 40 floats.
  CHECK(ex.traffic().gathered == 128 + 32);
  CHECK(ex.traffic().summed == 160);
}

TEST_CASE("low ranks of many matrices take two sums, or one, however many there are") {
  auto const codec = pith::error_feedback(pith::power_sgd(2));
  auto const one_sided = pith::error_feedback(pith::one_sided_power_sgd(2));
  auto model = std::vector<pith::tensor_spec>(1, {"layer", {40 * 24, 40}});
  auto const f = sizeof(float);
  CHECK(sums_in_a_step(model, codec) == std::vector<std::size_t>{40 * 2 * f, 24 * 2 * f});
  model.resize(30, model[0]);
  CHECK(sums_in_a_step(model, codec) == std::vector<std::size_t>{30 * 40 * 2 * f, 30 * 24 * 2 * f});
  CHECK(sums_in_a_step(model, one_sided) == std::vector<std::size_t>{30 * 40 * 2 * f});
  // Other shapes join them, and vectors, which travel as they are in the first one.
  model.push_back({"head", {48 * 20, 20}}), model.push_back({"bias", {40}});
  CHECK(sums_in_a_step(model, codec) ==
        std::vector<std::size_t>{(30 * 40 * 2 + 20 * 2 + 40) * f, (30 * 24 * 2 + 48 * 2) * f});
}

TEST_CASE("a run that is cut, saved and restored goes on as one that was not") {
  auto const codec = pith::parse<float>("ef(top_k(0.05)|qsgd<4>)");
  auto const whole = received(2, codec, 6);
  auto sums = std::vector<std::vector<double>>(2);
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto saved = std::vector<std::byte>();
    auto own = std::vector<double>(whole.size());
    for (int step = 0; step < 6; ++step) {
      auto ex = exchange(pith::seq, comm, tensors, codec, {.seed = 3});
      if (step > 0) ex.import_state(pith::span<std::byte const>(saved));
      auto g = gradient(ex.size(), comm.rank(), step);
      ex.all_reduce_mean(pith::span<float>(g));
      saved = ex.export_state();
      for (std::size_t i = 0; i < g.size(); ++i) own[i] += static_cast<double>(g[i]);
    }
    sums[comm.rank()] = own;
  });
  CHECK(sums[0] == whole);
  CHECK(sums[1] == whole);
}

TEST_CASE("residuals are rescaled for a new loss scale") {
  auto comm = pith::self_communicator();
  auto const codec = pith::parse<float>("ef(top_k(0.1))");
  auto one = pith::make_exchange<float>(pith::seq, comm, tensors, codec);
  auto two = pith::make_exchange<float>(pith::seq, comm, tensors, codec);
  auto a = gradient(one.size(), 0, 0), b = a, zero = std::vector<float>(one.size());
  for (auto& v : b) v *= 2;
  one.all_reduce_mean(a);
  two.all_reduce_mean(b);
  one.rescale(2);
  a = b = zero;
  one.all_reduce_mean(a);
  two.all_reduce_mean(b);
  CHECK(a == b);  // powers of two scale floats exactly
  CHECK(a != zero);
}

TEST_CASE("a group that would be too large for one transfer is opened again") {
  auto plan = pith::detail::exchange_plan(100);
  for (std::size_t t = 0; t < 3; ++t) plan.add(t, 0, {pith::transport::all_reduce_sum, pith::element_kind::f32, 10}, 4);
  for (std::size_t t = 3; t < 5; ++t) plan.add(t, 0, {pith::transport::all_gather, {}, 16}, 4);
  plan.place();
  auto const& groups = plan.rounds()[0];
  CHECK(groups.size() == 4);
  CHECK(groups[0].slots.size() == 2);
  CHECK(groups[1].slots.size() == 1);
  CHECK(groups[2].gathered + 4 * groups[2].bytes <= groups[3].gathered);
  CHECK(plan.sent_bytes(pith::transport::all_reduce_sum) == 120);
}

TEST_CASE("a NaN on one rank reaches all and leaves no trace in the residuals") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto ex = exchange(pith::seq, comm, tensors, pith::parse<float>("ef(scaled_sign)"), {.seed = 3});
    auto g = gradient(ex.size(), comm.rank(), 0);
    ex.all_reduce_mean(pith::span<float>(g));
    auto const before = ex.export_state();
    g = gradient(ex.size(), comm.rank(), 1);
    if (comm.rank() == 1) g[3] = std::numeric_limits<float>::quiet_NaN();
    ex.all_reduce_mean(pith::span<float>(g));
    CHECK(std::isnan(g[0]));
    CHECK_FALSE(std::isnan(g[960]));  // the bias is another tensor
    g = gradient(ex.size(), comm.rank(), 2);
    ex.all_reduce_mean(pith::span<float>(g));
    for (float v : g) REQUIRE_FALSE(std::isnan(v));
  });
}

TEST_CASE("bad sizes and foreign states are refused in words") {
  auto comm = pith::self_communicator();
  using solo = pith::gradient_exchange<float, pith::seq_executor, pith::self_communicator>;
  auto ex = solo(pith::seq, comm, tensors, pith::identity());
  auto g = std::vector<float>(ex.size() - 1);
  CHECK_THROWS_WITH_AS(ex.all_reduce_mean(pith::span<float>(g)),
                       "pith::gradient_exchange::begin: gradients must have 1168 elements, got 1167",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(ex.begin(pith::span<float>(nullptr, ex.size())),
                       "pith::gradient_exchange::begin: gradients must be an address of 1168 elements, got null",
                       std::invalid_argument);
  ex.begin();
  auto const n = ex.tensors()[0].dims.n;
  CHECK_THROWS_WITH_AS(ex.ready(0, pith::span<float>(nullptr, n)),
                       doctest::Contains("ready: gradient must be an address of "), std::invalid_argument);
  ex.skip();
  auto state = solo(pith::seq, comm, tensors, pith::identity(), {.seed = 9}).export_state();
  CHECK_THROWS_WITH_AS(ex.import_state(pith::span<std::byte const>(state)),
                       "pith::gradient_exchange::import_state: the state must be of seed 0, got one of seed 9",
                       std::invalid_argument);
  state.pop_back();
  CHECK_THROWS_WITH_AS(ex.import_state(pith::span<std::byte const>(state)),
                       doctest::Contains("the state is cut off: it must have "), std::invalid_argument);
}
