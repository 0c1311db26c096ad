// tests/exchange/recovery_test.cpp — a step that fails in any of its calls leaves the states of the last complete one.
#include <pith/adaptor/rated.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/accordion.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/failing.hpp"
#include "support/parsed.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <latch>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

using failing_rank = support::failing_communicator<pith::thread_communicator>;
using support::fault;

std::vector<pith::tensor_spec> const recovered_tensors = {
    {"weight", {96, 12}}, {"none", {0}}, {"bias", {11}}, {"head", {40, 8}}};
constexpr unsigned recovered_ranks = 3, lost = 1;
constexpr int recovered_steps = 4;

std::vector<float> recovered_gradient(std::size_t n, unsigned rank, int step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i)
    g[i] = static_cast<float>((i * 29 + rank * 13 + static_cast<unsigned>(step) * 7) % 23) - 11;
  return g;
}

/// What a rank has: the means of its complete steps, and what it can go on from, the latest first.
struct progress {
  std::vector<std::vector<float>> means;
  std::vector<std::vector<std::byte>> states = {};
  std::string error = {};

  /// The state after so many steps.
  std::vector<std::byte> const& after(std::size_t steps) const { return states.at(means.size() - steps); }
};

/// One step, in one call, or of gradients that are ready one by one.
template <class Exchange>
void take_step(Exchange& exchange, std::vector<float>& g, bool at_once) {
  if (at_once) return exchange.all_reduce_mean(g);
  exchange.begin(g);
  for (auto i = recovered_tensors.size(); i-- > 0;) exchange.ready(i);
  exchange.wait();
}

/// Steps until all are done or one fails.
template <class Exchange>
void go_on(Exchange& exchange, unsigned rank, bool at_once, progress& to) {
  try {
    while (to.means.size() < recovered_steps) {
      auto g = recovered_gradient(exchange.size(), rank, static_cast<int>(to.means.size()));
      take_step(exchange, g, at_once);
      to.means.push_back(g);
    }
  } catch (std::exception const& error) {
    to.error = error.what();
  }
}

/// What a rank does whose call has failed: it comes back, its error ends it, or it stays away until the others give up.
enum class ending { returns, throws, stays };

struct loss {
  int calls;  ///< that rank `lost` makes before
  fault when;
  ending how = ending::returns;
};

/// Runs all steps on all ranks; rank `lost` ends in one of its calls. All ranks save their states afterwards.
template <class Make>
std::vector<progress> run_until(loss const& what, bool at_once, Make const& make) {
  auto all = std::vector<progress>(recovered_ranks);
  auto others_end = std::latch(recovered_ranks - 1);
  auto const run = [&](pith::thread_communicator threads) {
    auto comm = failing_rank(threads);
    auto exchange = make(comm);
    auto& own = all[comm.rank()];
    if (comm.rank() == lost) comm.fail(what.calls, what.when);
    go_on(exchange, comm.rank(), at_once, own);
    if (comm.rank() != lost) others_end.count_down();
    if (comm.rank() == lost && what.how == ending::stays) others_end.wait();
    if (!own.error.empty()) CHECK_THROWS(exchange.begin());
    own.states.push_back(exchange.export_state());
    if (!own.means.empty()) own.states.push_back(exchange.export_state(1));
    if (comm.rank() == lost && what.how == ending::throws) throw support::lost_call(own.error);
  };
  try {
    pith::run_ranks(recovered_ranks, run, {.timeout = what.how == ending::stays ? 1s : 10min});
  } catch (support::lost_call const&) {
    CHECK(what.how == ending::throws);
  }
  return all;
}

/// Resumes from the saved states, after the last step that all ranks completed.
template <class Make>
std::vector<progress> resume(std::vector<progress> const& saved, std::size_t done, Make const& make) {
  auto all = std::vector<progress>(recovered_ranks);
  pith::run_ranks(recovered_ranks, [&](pith::thread_communicator threads) {
    auto comm = failing_rank(threads);
    auto exchange = make(comm);
    auto const& own = saved[comm.rank()];
    auto& next = all[comm.rank()];
    next.means.assign(own.means.begin(), own.means.begin() + static_cast<std::ptrdiff_t>(done));
    exchange.import_state(own.after(done));
    go_on(exchange, comm.rank(), true, next);
    next.states.push_back(exchange.export_state());
  });
  return all;
}

/// How many calls rank `lost` makes in all steps.
template <class Make>
int calls_of(bool at_once, Make const& make, std::vector<progress>& uninterrupted) {
  auto made = 0;
  uninterrupted.assign(recovered_ranks, {});
  pith::run_ranks(recovered_ranks, [&](pith::thread_communicator threads) {
    auto comm = failing_rank(threads);
    auto exchange = make(comm);
    auto const before = comm.left();
    go_on(exchange, comm.rank(), at_once, uninterrupted[comm.rank()]);
    if (comm.rank() == lost) made = before - comm.left();
    uninterrupted[comm.rank()].states.push_back(exchange.export_state());
  });
  return made;
}

/// Each rank has one error, or came to the end before, and the means that it received are right.
void check_ends(std::vector<progress> const& all, std::vector<progress> const& expected, ending how) {
  auto const* const heard = how == ending::stays ? "gone or stuck" : " cannot end: rank 1 returned or threw";
  for (unsigned r = 0; r < recovered_ranks; ++r) {
    auto const is_told = all[r].error.find(r == lost ? "a call that " : heard) != std::string::npos;
    CHECK((is_told || (r != lost && all[r].means.size() == recovered_steps)));
    CHECK(std::equal(all[r].means.begin(), all[r].means.end(), expected[r].means.begin()));
  }
}

/// Where a call of the lost rank fails, all ranks go on from their last common step as if it had not. Returns by how
/// many steps they ended apart.
template <class Make>
std::size_t check_loss(loss const& what, bool at_once, std::vector<progress> const& expected, Make const& make) {
  CAPTURE(what.calls);
  auto const all = run_until(what, at_once, make);
  check_ends(all, expected, what.how);
  auto const by_steps = [](auto const& a, auto const& b) { return a.means.size() < b.means.size(); };
  auto const [least, most] = std::minmax_element(all.begin(), all.end(), by_steps);
  auto const resumed = resume(all, least->means.size(), make);
  for (unsigned r = 0; r < recovered_ranks; ++r) {
    CHECK(resumed[r].error.empty());
    CHECK(resumed[r].means == expected[r].means);
    CHECK(resumed[r].states == expected[r].states);
  }
  return most->means.size() - least->means.size();
}

/// Whichever call fails.
template <class Make>
void check_recovery(Make const& make) {
  for (auto const at_once : {true, false}) {
    auto expected = std::vector<progress>();
    auto const calls = calls_of(at_once, make, expected);
    REQUIRE(calls >= recovered_steps);
    std::size_t apart = 0;
    for (int call = 0; call < calls; ++call) {
      for (auto const when : {fault::before, fault::after})
        apart = std::max(apart, check_loss({call, when}, at_once, expected, make));
    }
    CHECK(apart == 1);
  }
}

/// Tensors "head" and "bias", and "weight", travel by themselves.
pith::exchange_options recovered_options() { return {.seed = 5, .bucket_bytes = 250, .is_recoverable = true}; }

void check_recovery_of(char const* text, pith::exchange_options const& options = recovered_options()) {
  CAPTURE(text);
  auto const codec = pith::parse<float>(text);
  check_recovery([&](failing_rank& comm) {
    return pith::make_exchange<float>(pith::seq, comm, recovered_tensors, codec, options);
  });
}

}  // namespace

TEST_CASE("an exchange whose step failed in any call goes on from its last complete step") {
  for (auto const* text :
       {"identity", "ef(top_k(0.1)|qsgd<4>)", "ef(top_k(0.1),momentum_correction(0.9))", "ef(top_k(0.1),ef21(0.1))",
        "ef(scaled_sign,two_sided(top_k(0.1)))", "ef(power_sgd(2))", "one_sided_power_sgd(2)", "summed_terngrad",
        "ef(two_shot(scaled_sign,ef(scaled_sign)))", "ef(reduce_scatter(qsgd<8>))", "ef(ring(qsgd<8>),unverified)",
        "ef(ok_top_k(0.1))", "g_top_k(0.1)", "ef(hierarchical(qsgd<8>,ef(top_k(0.1)),1))", "random_k(0.1)"})
    check_recovery_of(text);
}

TEST_CASE("an exchange with weights, verification or exact or predicted gathers goes on after a failed step") {
  auto options = recovered_options();
  options.is_weighted = true;
  options.verification = pith::verify::each_step;
  check_recovery_of("ef(top_k(0.1)|qsgd<4>)", options);
  options = recovered_options();
  for (auto const how : {pith::gather::exact, pith::gather::predicted}) {
    options.gather_mode = how;
    check_recovery_of("ef(threshold(4,0.5))", options);
  }
}

TEST_CASE("an adaptive exchange goes on from its last complete step with its controller's state after a failed step") {
  auto const codec = pith::any_codec<float, pith::seq_executor>(pith::error_feedback(pith::rated(pith::top_k(0.1))));
  auto const check = [&](auto const& controller) {
    CAPTURE(controller.name());
    check_recovery([&](failing_rank& comm) {
      return pith::make_adaptive_exchange<float>(pith::seq, comm, recovered_tensors, codec, controller,
                                                 recovered_options());
    });
  };
  check(pith::accordion({.high_rate = 0.5, .low_rate = 0.1, .change = 0.5, .interval = 1}));
  check(pith::l_greco({.rates = {0.5, 0.25, 0.1}, .reference = 0.25, .interval = 1}));
  check(pith::gravac());
  check(pith::gravac_by_gradients());
  check(pith::fixed_schedule({{3, 0.5}}));
}

TEST_CASE("however the lost rank ends, at any moment") {
  auto const codec = pith::parse<float>("ef(top_k(0.1)|qsgd<4>)");
  auto const make = [&](failing_rank& comm) {
    return pith::make_exchange<float>(pith::seq, comm, recovered_tensors, codec, recovered_options());
  };
  auto expected = std::vector<progress>();
  auto const calls = calls_of(false, make, expected);
  auto draw = std::mt19937(20);
  for (int trial = 0; trial < 30; ++trial) {
    auto const what = loss{static_cast<int>(draw() % static_cast<unsigned>(calls)),
                           draw() % 2 == 0 ? fault::before : fault::after, static_cast<ending>(trial % 3)};
    CHECK(check_loss(what, draw() % 2 == 0, expected, make) <= 1);
  }
}

namespace {

using failing_self = support::failing_communicator<pith::self_communicator>;

auto make_alone(failing_self& comm, bool is_recoverable) {
  auto const codec = pith::parse<float>("ef(top_k(0.1))");
  return pith::make_exchange<float>(pith::seq, comm, recovered_tensors, codec,
                                    {.seed = 5, .bucket_bytes = 250, .is_recoverable = is_recoverable});
}
template <class Exchange>
std::vector<std::byte> step_alone(Exchange& exchange, int step) {
  auto g = recovered_gradient(exchange.size(), 0, step);
  exchange.all_reduce_mean(g);
  return exchange.export_state();
}

}  // namespace

TEST_CASE("states are exported of the last step and of the one before, of no other") {
  auto comm = failing_self(pith::self_communicator());
  auto exchange = make_alone(comm, true);
  auto const refused = [&](unsigned most) {
    CHECK_THROWS_WITH_AS(
        exchange.export_state(most),
        pith::detail::sentence("gradient_exchange::export_state: steps_back must be below ", most, ", got ", most)
            .c_str(),
        std::invalid_argument);
  };
  auto states = std::vector<std::vector<std::byte>>(1, exchange.export_state());
  refused(1);
  for (int step = 0; step < 3; ++step) {
    states.push_back(step_alone(exchange, step));
    CHECK(exchange.export_state(1) == states[states.size() - 2]);
  }
  refused(3);
  comm.fail(1, fault::before);
  CHECK_THROWS_AS(step_alone(exchange, 3), support::lost_call);
  CHECK(exchange.has_failed());
  CHECK(exchange.export_state() == states[3]);
  CHECK(exchange.export_state(1) == states[2]);
  refused(2);
  exchange.import_state(states[3]);
  refused(1);
}

TEST_CASE("an exchange without is_recoverable refuses export_state() after a failed step") {
  auto comm = failing_self(pith::self_communicator());
  auto exchange = make_alone(comm, false);
  auto const state = step_alone(exchange, 0);
  auto const gathered = exchange.traffic().gathered;
  CHECK_THROWS_WITH_AS(exchange.export_state(1),
                       "pith::gradient_exchange::export_state: steps_back must be below 1, got 1",
                       std::invalid_argument);
  comm.fail(1, fault::before);
  CHECK_THROWS_AS(step_alone(exchange, 1), support::lost_call);
  CHECK_THROWS_WITH_AS(exchange.export_state(),
                       "pith::gradient_exchange: export_state() is refused after a step that threw: set "
                       "exchange_options::is_recoverable, or call import_state() first",
                       std::invalid_argument);
  exchange.import_state(state);
  CHECK(exchange.export_state() == state);
  CHECK(exchange.traffic().gathered == gathered);
}

TEST_CASE("an adaptive exchange without is_recoverable refuses export_state() during a step and after a failed one") {
  auto comm = failing_self(pith::self_communicator());
  auto const codec = pith::any_codec<float, pith::seq_executor>(pith::error_feedback(pith::rated(pith::top_k(0.1))));
  auto exchange =
      pith::make_adaptive_exchange<float>(pith::seq, comm, recovered_tensors, codec, pith::fixed_schedule({{3, 0.5}}));
  auto g = recovered_gradient(exchange.size(), 0, 0);
  exchange.begin(g);
  for (unsigned const steps_back : {0u, 1u})
    CHECK_THROWS_WITH_AS(exchange.export_state(steps_back),
                         "pith::gradient_exchange: export_state() must be called between steps: call wait() first",
                         std::invalid_argument);
  exchange.skip();
  comm.fail(0, fault::before);
  CHECK_THROWS_AS(exchange.all_reduce_mean(g), support::lost_call);
  CHECK_THROWS_WITH_AS(exchange.export_state(),
                       "pith::adaptive_exchange: export_state() is refused after a step that threw: set "
                       "exchange_options::is_recoverable, or call import_state() first",
                       std::invalid_argument);
}

TEST_CASE("a step that is abandoned has not been, or has failed once a bucket is on its way") {
  auto comm = failing_self(pith::self_communicator());
  auto exchange = make_alone(comm, true);
  auto const before = step_alone(exchange, 0), state = step_alone(exchange, 1);
  auto g = recovered_gradient(exchange.size(), 0, 2);
  exchange.begin(g);
  exchange.ready(0);  // of the last bucket, which waits for others
  exchange.abandon();
  CHECK_FALSE(exchange.has_failed());
  CHECK(exchange.export_state() == state);
  CHECK(exchange.export_state(1) == before);
  auto const left = comm.left();
  exchange.begin(g);
  for (auto const i : {3u, 2u, 1u}) exchange.ready(i);
  while (comm.left() == left) std::this_thread::yield();
  exchange.abandon();
  CHECK(exchange.has_failed());
  CHECK(exchange.export_state() == state);
  CHECK(exchange.export_state(1) == before);
  CHECK_THROWS_AS(exchange.begin(g), std::invalid_argument);
  exchange.abandon();
  exchange.import_state(state);
  CHECK(step_alone(exchange, 2) != state);
}
