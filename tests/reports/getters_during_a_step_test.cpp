// tests/reports/getters_during_a_step_test.cpp — calls that read an exchange during a step. Each call returns the
// values from before the step, or throws, and no call races with the exchange's thread. Compare chronoxor/CppServer#46,
// where two threads access a counter of sent bytes.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cmath>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::thread_communicator>;

std::vector<pith::tensor_spec> const read_tensors = {{"a", {2000}}, {"b", {2000}}};
constexpr std::size_t read_elements = 4000;

/// Gradients whose payloads have another size in each step.
std::vector<float> read_gradient(unsigned step, unsigned rank) {
  auto g = std::vector<float>(read_elements);
  for (std::size_t i = 0; i < g.size(); ++i)
    g[i] = std::sin(0.37f * static_cast<float>(i + step + rank)) / static_cast<float>(1 + i % (2 + step));
  return g;
}

/// A call that returns the values from before the step.
struct step_reading {
  char const* name;
  std::function<double(exchange const&)> value;
};
std::vector<step_reading> const step_readings = {
    {"traffic", [](exchange const& e) { return static_cast<double>(e.traffic().total()); }},
    {"gathered", [](exchange const& e) { return static_cast<double>(e.traffic().gathered); }},
    {"has_failed", [](exchange const& e) { return e.has_failed() ? 1.0 : 0.0; }},
    {"buckets", [](exchange const& e) { return static_cast<double>(e.buckets()); }},
    {"bucket_of", [](exchange const& e) { return static_cast<double>(e.bucket_of(0)); }},
    {"size", [](exchange const& e) { return static_cast<double>(e.size()); }},
    {"tensors", [](exchange const& e) { return static_cast<double>(e.tensors().size()); }},
    {"codecs", [](exchange const& e) { return static_cast<double>(e.codecs()[1].name().size()); }}};

/// A call that throws during a step.
struct step_refusal {
  char const* name;
  std::function<void(exchange&)> call;
};
std::vector<step_refusal> const refusals_in_step = {
    {"traffic of a subgroup", [](exchange& e) { e.traffic(pith::subgroup()); }},
    {"report", [](exchange& e) { e.report(); }},
    {"fed_back", [](exchange& e) { e.fed_back(0); }},
    {"export_state", [](exchange& e) { e.export_state(); }},
    {"measure_gradients", [](exchange& e) { e.measure_gradients(nullptr); }},
    {"fit_buckets", [](exchange& e) { e.fit_buckets(); }},
    {"rescale", [](exchange& e) { e.rescale(2); }}};

std::vector<double> all_readings(exchange const& e) {
  auto values = std::vector<double>();
  for (auto const& r : step_readings) values.push_back(r.value(e));
  return values;
}

/// Runs a step. While the exchange's thread runs the first bucket, makes all calls many times.
void read_in_step(exchange& e, unsigned step, unsigned rank) {
  auto const before = all_readings(e);
  auto g = read_gradient(step, rank);
  e.begin(pith::span<float>(g));
  e.ready(1);
  for (int i = 0; i < 20; ++i) {
    CHECK(all_readings(e) == before);
    for (auto const& r : refusals_in_step) {
      CAPTURE(r.name);
      CHECK_THROWS_AS(r.call(e), std::invalid_argument);
    }
    std::this_thread::yield();
  }
  e.ready(0);
  CHECK(all_readings(e) == before);
  e.wait();
}

}  // namespace

TEST_CASE("a call during a step returns the value from before the step or is refused") {
  for (auto const how : {pith::gather::padded, pith::gather::exact, pith::gather::predicted}) {
    for (auto const* const text : {"ef(threshold(0.5,0.9))", "ef(redsync(0.1))", "qsgd<8>"}) {
      CAPTURE(text);
      pith::run_ranks(2, [&](pith::thread_communicator comm) {
        auto e = exchange(pith::seq, comm, read_tensors, pith::parse<float>(text),
                          {.gather_mode = how, .bucket_bytes = 100, .is_recoverable = true});
        for (unsigned step = 0; step < 4; ++step) read_in_step(e, step, comm.rank());
      });
    }
  }
}

TEST_CASE("traffic during a step is that of the last step") {
  auto gathered = std::vector<std::size_t>();
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto e = exchange(pith::seq, comm, read_tensors, pith::parse<float>("ef(threshold(0.5,0.9))"),
                      {.gather_mode = pith::gather::exact});
    for (unsigned step = 0; step < 3; ++step) {
      auto g = read_gradient(step, comm.rank());
      e.begin(pith::span<float>(g));
      if (comm.rank() == 0) gathered.push_back(e.traffic().gathered);
      e.wait();
      if (comm.rank() == 0) gathered.push_back(e.traffic().gathered);
    }
  });
  REQUIRE(gathered.size() == 6);
  CHECK(gathered[1] < gathered[0]);  // before the first step, the largest possible number
  CHECK(gathered[2] == gathered[1]);
  CHECK(gathered[3] != gathered[2]);
  CHECK(gathered[4] == gathered[3]);
}
