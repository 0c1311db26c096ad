// tests/reports/parameters_test.cpp — parameters that are NaN, infinite, negative, tiny or huge. Each is refused with
// an error that contains its name, or gives finite means. In pytorch#6000, optimizers accept parameters out of their
// range.
#include <pith/adaptor/rated.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/control.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/cost_model/cost_model.hpp>
#include <pith/cost_model/probe.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback.hpp>
#include <pith/vector_quantize/pca_basis.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/registered_texts.hpp"
#include "support/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using pith::seq;

/// Two steps of two ranks: a step of normal numbers and a step of zeros. Returns whether all means are finite.
bool has_finite_means(pith::any_codec<float> const& codec) {
  constexpr std::size_t n = 600;
  auto is_finite = true;
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto state =
        pith::make_state<float>(seq, codec, pith::matrix(20, 30), {7, 1, static_cast<std::uint16_t>(comm.rank())});
    auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(seq, codec, pith::matrix(20, 30), 2));
    auto comms = pith::make_sub_communicators<float>(comm, codec, pith::matrix(20, 30));
    for (unsigned step = 0; step < 2; ++step) {
      auto ws = pith::workspace<>(pith::span<std::byte>(memory));
      auto x = step == 0 ? support::narrow<float>(support::normal_vector(n, comm.rank())) : std::vector<float>(n);
      pith::all_reduce_mean<float>(seq, comms, codec, pith::span<float>(x), state, ws);
      if (comm.rank() == 0)
        is_finite = is_finite && std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
    }
  });
  return is_finite;
}

void check_text(std::string const& text) {
  CAPTURE(text);
  try {
    auto const codec = pith::parse<float>(text);
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
    CHECK(has_finite_means(codec));
  } catch (std::invalid_argument const& refused) {
    auto const words = std::string(refused.what());
    CHECK(words.starts_with("pith::"));
    CHECK(words.find("got ") != std::string::npos);
  }
}

/// A parameter of a constructor or function, and the valid ones among the values of the test.
struct parameter {
  char const* name;
  std::vector<double> valid;
  std::function<void(double)> pass;
};

auto const denormal = 5e-324, huge = 1e308;
auto const bad_values = std::vector<double>{NAN, HUGE_VAL, -HUGE_VAL, -1, -0.0, denormal, 2, huge};
auto const small_share = std::vector<double>{denormal}, small_momentum = std::vector<double>{-0.0, denormal},
           any_positive = std::vector<double>{denormal, 2, huge},
           not_negative = std::vector<double>{-0.0, denormal, 2, huge},
           any_factor = std::vector<double>{-1, -0.0, denormal, 2}, above_1 = std::vector<double>{2, huge};

void check_parameter(parameter const& p) {
  for (auto const value : bad_values) {
    CAPTURE(p.name);
    CAPTURE(value);
    auto const is_valid = std::find(p.valid.begin(), p.valid.end(), value) != p.valid.end();
    try {
      p.pass(value);
      CHECK(is_valid);
    } catch (std::invalid_argument const& refused) {
      auto const words = std::string(refused.what());
      CAPTURE(words);
      CHECK(!is_valid);
      CHECK(words.find(p.name) != std::string::npos);
      CHECK(words.find("got ") != std::string::npos);
    }
  }
}

template <class Options, class Made>
parameter controller_option(char const* name, double Options::*member, std::vector<double> valid) {
  return {name, std::move(valid), [member](double value) {
            auto options = Options();
            options.*member = value;
            Made made(options);
          }};
}

template <class F>
auto in_exchange(F const& f, bool is_weighted = false) {
  return [f, is_weighted](double value) {
    auto comm = pith::self_communicator();
    auto options = pith::exchange_options();
    options.is_weighted = is_weighted;
    auto exchange = pith::gradient_exchange<float, pith::seq_executor, pith::self_communicator>(
        seq, comm, {{"w", {64}}}, [](auto const&) { return pith::error_feedback(pith::top_k(0.1)); }, options);
    f(exchange, value);
  };
}

void set_learning_rate(double value) {
  auto comm = pith::self_communicator();
  auto const policy = [](auto const&) { return pith::error_feedback(pith::rated(pith::top_k(0.1))); };
  auto adaptive = pith::make_adaptive_exchange<float>(seq, comm, {{"w", {64}}}, policy, pith::warm_up(0.1, 10));
  adaptive.set_learning_rate(value);
}

void plan_with(pith::network const& net, double hidden = 0) {
  auto work = pith::exchange_work{1, 100, 100, {{1, 100}}};
  static_cast<void>(pith::plan_exchange(net, {{"a", work}}, ~0u, hidden));
}

void wait_for(double timeout) {
  auto const gather = [](pith::thread_communicator comm) {
    auto mine = std::vector<std::byte>(8), all = std::vector<std::byte>(8);
    comm.all_gather(seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all)).wait(seq);
  };
  pith::run_ranks(1, gather, {pith::timeout_duration(timeout)});
}

}  // namespace

TEST_CASE("a number in a text of the registry is refused or gives finite means") {
  auto const check = [](std::string const& example) {
    for (auto const* value :
         {"nan", "-nan", "inf", "-inf", "infinity", "-1", "-0", "0", "5e-324", "1e-310", "2", "1e308"}) {
      for (auto const& text : support::with_argument(example, "0123456789.", value)) check_text(text);
    }
  };
  support::for_each_example(pith::stage_listings, check);
  support::for_each_example(pith::exchange_listings, check);
  support::for_each_example(pith::policy_listings, check);
}

TEST_CASE("a parameter of a codec or feedback policy out of its range is refused with its name") {
  for (auto const& p : std::vector<parameter>{
           {"sigma", not_negative, [](double v) { pith::terngrad<>{v}; }},
           {"sigma", not_negative, [](double v) { pith::summed_terngrad{v}; }},
           {"density", small_share, [](double v) { pith::top_k{v}; }},
           {"density", small_share, [](double v) { static_cast<void>(pith::top_k(0.1).at(v)); }},
           {"density", small_share, [](double v) { pith::redsync{v}; }},
           {"density", small_share, [](double v) { pith::redsync_mean{v}; }},
           {"density", small_share, [](double v) { pith::sidco<>{v}; }},
           {"density", small_share, [](double v) { pith::gaussian_k{v}; }},
           {"density", small_share, [](double v) { pith::random_k{v}; }},
           {"density", small_share, [](double v) { pith::random_blocks{v}; }},
           {"density", small_share, [](double v) { pith::ok_top_k{v}; }},
           {"density", small_share, [](double v) { pith::g_top_k{v}; }},
           {"tau", any_positive, [](double v) { pith::threshold(v, 0.5); }},
           {"capacity", small_share, [](double v) { pith::threshold(0.5, v); }},
           {"capacity", small_share, [](double v) { pith::inceptionn(pith::byte_field::reference, v); }},
           {"min_rate", above_1, [](double v) { pith::power_sgd(1, v); }},
           {"min_rate", above_1, [](double v) { pith::one_sided_power_sgd(1, v); }},
           {"dense_from", small_share, [](double v) { pith::rated(pith::top_k(0.1), v); }},
           {"rate", any_positive, [](double v) { static_cast<void>(pith::rated(pith::top_k(0.1)).at(v)); }},
           {"beta", any_factor, [](double v) { static_cast<void>(pith::residual(v, 1.0)); }},
           {"gamma", any_factor, [](double v) { static_cast<void>(pith::residual(1.0, v)); }},
           {"beta", any_factor, [](double v) { static_cast<void>(pith::own_residual(v, 1.0)); }},
           {"gamma", any_factor, [](double v) { static_cast<void>(pith::mean_residual(1.0, v)); }},
           {"learning_rate", {2}, [](double v) { pith::ef_sign{v}; }},
           {"most", any_positive, [](double v) { static_cast<void>(pith::clipping::norm(v)); }},
           {"most", any_positive, [](double v) { static_cast<void>(pith::clipping::value(v)); }},
           {"momentum", small_momentum, [](double v) { pith::momentum_correction{v}; }},
           {"beta", small_momentum, [](double v) { pith::signum_momentum{v}; }},
           {"eta", small_share, [](double v) { pith::ef21{v}; }},
           {"lambda", small_momentum, [](double v) {
              auto options = pith::pca_options();
              options.lambda = v;
              auto samples = pith::slice_samples<double>(64, 8);
              auto const x = support::normal_vector(64, 1);
              samples.add(pith::span<double const>(x));
              samples.add(pith::span<double const>(support::normal_vector(64, 2)));
              static_cast<void>(pith::pca_basis::fit(samples, options));
            }}})
    check_parameter(p);
}

TEST_CASE("a parameter of a controller out of its range is refused with its name") {
  using a = pith::accordion_options;
  using g = pith::gravac_options;
  for (auto const& p : std::vector<parameter>{
           controller_option<a, pith::accordion>("high_rate", &a::high_rate, {}),
           controller_option<a, pith::accordion>("low_rate", &a::low_rate, small_share),
           controller_option<a, pith::accordion>("change", &a::change, not_negative),
           controller_option<a, pith::accordion>("smoothing", &a::smoothing, small_momentum),
           controller_option<a, pith::accordion>("fall", &a::fall, small_share),
           controller_option<g, pith::gravac>("min_gain", &g::min_gain, small_share),
           controller_option<g, pith::gravac>("saturation", &g::saturation, small_momentum),
           controller_option<g, pith::gravac>("smoothing", &g::smoothing, small_share),
           controller_option<g, pith::gravac>("regime", &g::regime, above_1),
           controller_option<pith::l_greco_options, pith::l_greco>("reference", &pith::l_greco_options::reference, {}),
           {"density", small_share, [](double v) { pith::warm_up(v, 10); }},
           {"fall", small_share, [](double v) { pith::warm_up(0.1, 10, v); }},
           {"rate", small_share, [](double v) { pith::fixed_schedule({{0, v}}); }},
           {"factor_ladder", {2}, [](double v) { static_cast<void>(pith::factor_ladder::exponential(v, 100)); }},
           {"last", {huge}, [](double v) { static_cast<void>(pith::factor_ladder::exponential(10, v)); }},
           {"factor_ladder", {2}, [](double v) { static_cast<void>(pith::factor_ladder::geometric(v, 100)); }},
           {"factor_ladder", {}, [](double v) { static_cast<void>(pith::factor_ladder::geometric(10, v)); }},
           {"by", above_1, [](double v) { static_cast<void>(pith::factor_ladder::geometric(10, 100, v)); }},
           {"set_learning_rate: rate", not_negative, set_learning_rate}})
    check_parameter(p);
}

TEST_CASE("an argument of an exchange or communicator out of its range is refused with its name") {
  auto const rescale = [](auto& exchange, double v) { exchange.rescale(v); };
  auto const weigh = [](auto& exchange, double v) {
    auto x = std::vector<float>(64);
    exchange.all_reduce_mean(pith::span<float>(x), v);
  };
  auto const wait = [](double v) {  // a call within the smallest timeout may succeed or not
    v == denormal ? throw std::invalid_argument("timeout, got ") : wait_for(v);
  };
  check_parameter({"factor", any_factor, in_exchange(rescale)});  // huge is not a float
  check_parameter({"weight", not_negative, in_exchange(weigh, true)});
  check_parameter({"timeout", {HUGE_VAL, 2, huge}, wait});
}

TEST_CASE("an argument of a cost model out of its range is refused with its name") {
  using pith::fit_cost;
  auto const small_numbers = std::vector<double>{-0.0, denormal, 2};
  check_parameter({"small.n", small_numbers, [](double v) { fit_cost({v, 1}, {1e9, 2}); }});
  check_parameter({"large.n", above_1, [](double v) { fit_cost({1, 1}, {v, 2}); }});
  check_parameter({"small.seconds", not_negative, [](double v) { fit_cost({1, v}, {10, 2}); }});
  check_parameter({"large.seconds", not_negative, [](double v) { pith::fit_network(2, {1, 1}, {10, v}); }});
  check_parameter({"factor", any_positive, [](double v) { pith::faster({2, {1e-5, 1e-9}}, v); }});
  check_parameter({"hidden_seconds", not_negative, [](double v) { plan_with({2, {1e-5, 1e-9}}, v); }});
  for (auto const v : {static_cast<double>(NAN), HUGE_VAL, -1.0}) {
    CHECK_THROWS_WITH_AS(plan_with({2, {v, 0}}), doctest::Contains("a message must be finite and at least 0, got "),
                         std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(plan_with({2, {huge, 0}}), doctest::Contains("predicted seconds"), std::invalid_argument);
}
