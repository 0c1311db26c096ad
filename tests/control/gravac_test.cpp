// tests/control/gravac_test.cpp — the controller as a table: ladders, rows, windows, saturation.
#include <pith/control/gravac.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <vector>

namespace {

using pith::factor_ladder;
using pith::gain_average;
using pith::gravac;
using pith::gravac_options;

std::vector<double> rungs(factor_ladder const& ladder) {
  auto all = std::vector<double>();
  for (std::size_t i = 0; i < ladder.size(); ++i) all.push_back(ladder[i]);
  return all;
}

/// The measurements of a step of a model with one tensor, at the two rates of the controller.
struct observed {
  double low = 1, high = 1;  ///< gains
  double seconds = 1, energy = 8, learning_rate = 0;
};

void show(gravac& g, observed const& of) {
  auto const rates = g.measures(0, 0);
  auto reports = std::vector<pith::rate_report>{{0, rates[0], of.energy, of.low * of.energy, 0}};
  if (rates.size() == 2) reports.push_back({0, rates[1], of.energy, of.high * of.energy, 0});
  g.observe({0, of.learning_rate, of.seconds, {reports.data(), reports.size()}, {}});
}

/// No averages, and no window before the test says so.
gravac_options plain(std::vector<double> ladder = {10, 20, 40}) {
  auto o = gravac_options{factor_ladder(std::move(ladder))};
  o.smoothing = 1;
  o.samples = 1;
  o.window = 1000;
  return o;
}

/// A controller whose window is one step, so that each step climbs.
gravac climbing(std::vector<double> ladder, double min_gain = 0.7) {
  auto o = plain(std::move(ladder));
  o.window = 1;
  o.min_gain = min_gain;
  return gravac(o);
}

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("ladders are those of the paper") {
  CHECK(rungs(factor_ladder::exponential(10, 1000)) == std::vector<double>{10, 20, 40, 160, 1000});
  CHECK(rungs(factor_ladder::geometric(10, 2000)) == std::vector<double>{10, 20, 40, 80, 160, 320, 640, 1280, 2000});
  CHECK(rungs(factor_ladder::geometric(1.5, 1000)) ==
        std::vector<double>{1.5, 3, 6, 12, 24, 48, 96, 192, 384, 768, 1000});
  CHECK(rungs(factor_ladder::exponential(10, 10)) == std::vector<double>{10});
  CHECK_THROWS_WITH_AS(factor_ladder({10, 10}), "pith::factor_ladder: rung 1 must be finite and above 10, got 10",
                       std::invalid_argument);
  CHECK_THROWS_AS(factor_ladder({1, 10}), std::invalid_argument);
  CHECK_THROWS_AS(factor_ladder({}), std::invalid_argument);
  CHECK_THROWS_AS(factor_ladder::geometric(10, 1e9, 1.01), std::invalid_argument);
  CHECK_THROWS_AS(factor_ladder::exponential(-1, 5), std::invalid_argument);
}

TEST_CASE("the row is the highest factor whose gain suffices, equality included") {
  struct row {
    double low, high, rate;
  };
  for (auto const& expected : {row{0.9, 0.8, 1 / 20.}, row{0.9, 0.7, 1 / 20.}, row{0.9, 0.69, 1 / 10.},
                               row{0.7, 0.69, 1 / 10.}, row{0.69, 0.6, 1.}, row{0, 0, 1.}, row{1, 1, 1 / 20.}}) {
    CAPTURE(expected.low);
    CAPTURE(expected.high);
    auto g = gravac(plain());
    CHECK(g.decide(1, 0) == 1);  // nothing is known
    // 8 x 0.7 / 8 is 0.7 again: a division by a power of two is exact.
    show(g, {expected.low, expected.high});
    CHECK(g.decide(2, 0) == expected.rate);
    CHECK(g.decide(2, 7) == expected.rate);
  }
}

TEST_CASE("a gain of nothing is 1, and one that is no number leads to a dense step and leaves no trace") {
  auto g = gravac(plain());
  show(g, {.energy = 0});
  CHECK(g.decide(1, 0) == 1 / 20.);
  for (auto const bad :
       {observed{no_number, 1}, observed{1, no_number}, observed{.energy = no_number}, observed{.energy = HUGE_VAL}}) {
    show(g, {0.9, 0.8});
    auto const before = g.gain();
    show(g, bad);
    CHECK(g.decide(1, 0) == 1);
    CHECK(g.gain() == 1);
    show(g, {0.9, 0.8});
    CHECK(g.decide(1, 0) == 1 / 20.);
    CHECK(g.gain() == before);
  }
}

TEST_CASE("a gain is the quotient of averages, or the average of quotients") {
  for (auto const how : {gain_average::of_energies, gain_average::of_quotients}) {
    auto o = plain();
    o.smoothing = 0.25;
    o.average = how;
    auto g = gravac(o);
    show(g, {.low = 1, .high = 1, .energy = 4});
    show(g, {.low = 1, .high = 0.5, .energy = 12});
    auto const expected =
        how == gain_average::of_energies ? (0.75 * 4 + 0.25 * 6) / (0.75 * 4 + 0.25 * 12) : 0.75 * 1 + 0.25 * 0.5;
    CHECK(g.gain() == expected);
  }
  CHECK(gravac_options::smoothing_for(32) == 0.32);
  CHECK(gravac_options::smoothing_for(200) == 1);
}

TEST_CASE("gravac_by_gradients divides kept energies by those of the gradients of the same tensors") {
  auto g = pith::gravac_by_gradients(plain());
  auto const rates = g.measures(0, 0);
  auto const step = [&](double kept_low, double kept_high, std::vector<double> const& gradients) {
    auto const reports =
        std::vector<pith::rate_report>{{1, rates[0], 80, kept_low, 0}, {1, rates[1], 80, kept_high, 0}};
    g.observe({0, 0, 1, {reports.data(), reports.size()}, {gradients.data(), gradients.size()}});
  };
  step(7, 5, {100, 8});  // tensor 0 is not measured
  CHECK(g.gain() == 7 / 8.);
  CHECK(g.decide(2, 1) == 1 / 10.);
  step(9, 8, {100, 8});  // residuals add to the energy that is sent
  CHECK(g.gain() == 1);
  CHECK(g.decide(3, 1) == 1 / 20.);
  step(9, 8, {100, no_number});
  CHECK(g.decide(4, 1) == 1);
  CHECK(g.name() == "gravac_by_gradients(10..40,0.7)");
  CHECK(gravac(plain()).name() == "gravac(10..40,0.7)");
}

TEST_CASE("each window tries the next factor, up to the last") {
  auto o = plain({10, 20, 40});
  o.window = 2;
  auto g = gravac(o);
  auto const throughputs = {1.0, 3.0, 9.0, 1.0};
  auto const tried = {20, 40, 40, 40};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(g.high_factor() == tried.begin()[i]);
    for (int s = 0; s < 2; ++s) show(g, {0.95, 0.8, 1 / throughputs.begin()[i]});
  }
  CHECK(g.low_factor() == 10);
}

TEST_CASE("the lower factor becomes the higher one where that keeps as much") {
  // |0.8 - 0.792| / 0.8 = 0.01 up to a rounding: just more, and just less.
  for (auto const& [high, low_then] : {std::pair{0.7919, 10.0}, std::pair{0.7921, 20.0}}) {
    auto g = climbing({10, 20, 40});
    show(g, {0.8, high});
    CHECK(g.low_factor() == low_then);
    CHECK(g.high_factor() == 40);
    CHECK(g.measures(0, 0).size() == 2);
  }
  auto g = climbing({10, 20});
  show(g, {0.8, 0.8});
  CHECK(g.low_factor() == 20);
  CHECK(g.measures(0, 0) == pith::rate_list{1 / 20.});  // one factor is measured once
  show(g, {0.8});
  CHECK(g.decide(0, 0) == 1 / 20.);
}

TEST_CASE("1029.9 and 1035.4 are one throughput: the lower of their factors is kept") {
  for (double const last : {1035.4, 1045.0}) {
    auto const saturates = last < 1040;
    auto o = plain({320, 640, 1280, 2000});
    o.window = 2;
    auto g = gravac(o);
    // The first step of a window sends the lower factor, as it has not seen the higher one.
    auto const throughput_of = [&](double factor) {
      return factor == 320 ? 700 : factor == 640 ? 900 : factor == 1280 ? 1029.9 : last;
    };
    for (int s = 0; s < 20 && !g.is_saturated(); ++s) {
      auto const factor = g.factor();
      show(g, {0.95, 0.9, (factor == g.low_factor() ? 0.95 : 0.9) / throughput_of(factor)});
    }
    CHECK(g.is_saturated() == saturates);
    CHECK(g.high_factor() == (saturates ? 1280 : 2000));
  }
}

TEST_CASE("gravac stays saturated until the gain falls, the learning rate changes or reopen() is called") {
  auto const saturated = [] {
    auto o = plain({10, 20, 40, 80});
    o.window = 2;
    auto g = gravac(o);
    for (int s = 0; s < 12; ++s) show(g, {0.95, 0.8, g.factor() == 10 ? 0.95 : 0.8, 8, 0.1});
    REQUIRE(g.is_saturated());
    REQUIRE(g.high_factor() == 10);
    return g;
  };
  auto g = saturated();
  for (int s = 0; s < 50; ++s) show(g, {0.95, 0.8, 1, 8, 0.1});
  CHECK(g.is_saturated());
  g.reopen();
  CHECK((!g.is_saturated() && g.high_factor() == 20));
  g = saturated();
  show(g, {0.95, 0.8, 1, 8, 0.01});
  CHECK((!g.is_saturated() && g.high_factor() == 20));
  CHECK(g.gain() == 0.95);  // of this step; that of 20, which was not measured in it, is not known
  g = saturated();
  show(g, {0.1, 0.1, 1, 8, 0.1});
  show(g, {0.95, 0.8, 1, 8, 0.1});
  for (int s = 0; s < 2; ++s) show(g, {0.95, 0.8, 1, 8, 0.1});
  CHECK(g.is_saturated());  // less than a window
  for (int s = 0; s < 4; ++s) show(g, {0.1, 0.1, 1, 8, 0.1});
  CHECK((!g.is_saturated() && g.low_factor() == 10));
}

TEST_CASE("a lower factor that does not suffice for a window begins the ladder again") {
  auto g = climbing({10, 20, 40, 80});
  show(g, {0.8, 0.8, 1});
  REQUIRE(g.low_factor() == 20);
  show(g, {0.5, 0.4, 1});
  CHECK(g.low_factor() == 10);
  CHECK(g.high_factor() == 20);
  CHECK(g.decide(0, 0) == 1);  // dense: its gain was 0.8, but long ago
}

TEST_CASE("throughputs are compared when there are enough of them, while they are fresh") {
  auto o = plain({10, 20, 40});
  o.window = 4;
  o.samples = 4;
  auto g = gravac(o);
  for (int s = 0; s < 4; ++s) show(g, {0.95, 0.8, g.factor() == 10 ? 0.95 : 0.8});
  for (int s = 0; s < 4; ++s) show(g, {0.95, 0.8, g.factor() == 10 ? 0.95 : 0.8});
  CHECK(!g.is_saturated());  // 10 and 40 were sent three times at the most
}

TEST_CASE("a loaded gravac controller decides like the saved one, and a state of another ladder or size is refused") {
  auto a = climbing({10, 20, 40, 80}), b = climbing({10, 20, 40, 80});
  for (int s = 0; s < 3; ++s) show(a, {0.9, 0.8, 1.0 / (1 + s)});
  b.load(a.save());
  CHECK(a.save() == b.save());
  for (int s = 0; s < 5; ++s) {
    show(a, {0.9, 0.8 - 0.1 * s, 1}), show(b, {0.9, 0.8 - 0.1 * s, 1});
    CHECK(a.decide(0, 0) == b.decide(0, 0));
  }
  CHECK(a.save() == b.save());
  auto bytes = a.save();
  CHECK_THROWS_WITH_AS(climbing({10}).load(bytes),
                       doctest::Contains("pith::gravac::load: the state's rungs must be below 1, got "),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(b.load({}), doctest::Contains("bytes, got 0"), std::invalid_argument);
  bytes.pop_back();
  CHECK_THROWS_WITH_AS(b.load(bytes), doctest::Contains("pith::gravac::load: the state must have a multiple of "),
                       std::invalid_argument);
  CHECK(a.name() == "gravac(10..80,0.7)");
}

TEST_CASE("options are checked") {
  auto o = plain();
  o.min_gain = 0;
  CHECK_THROWS_WITH_AS(gravac{o}, "pith::gravac: min_gain must be in (0, 1], got 0", std::invalid_argument);
  o = plain(), o.smoothing = 0;
  CHECK_THROWS_AS(gravac{o}, std::invalid_argument);
  o = plain(), o.saturation = 1;
  CHECK_THROWS_AS(gravac{o}, std::invalid_argument);
  o = plain(), o.window = 0;
  CHECK_THROWS_AS(gravac{o}, std::invalid_argument);
}

TEST_CASE("gravac decides like a new controller after the learning rate changes") {
  auto o = plain({10, 20, 40});
  o.window = 5;
  o.smoothing = 0.1;
  auto g = gravac(o), fresh = gravac(o);
  for (int s = 0; s < 40; ++s) show(g, {0.95, 0.9, 1, 8, 0.1});
  for (int s = 0; s < 60; ++s) {
    show(g, {0.5, 0.4, 1, 8, 0.01});
    if (s > 0) show(fresh, {0.5, 0.4, 1, 8, 0.01});  // what the first step of the regime showed is of the old rates
    CHECK(g.decide(0, 0) == 1);
    CHECK(g.low_factor() == fresh.low_factor());
    CHECK(g.high_factor() == fresh.high_factor());
  }
}

TEST_CASE("a learning rate that moves a little in every step does not stop the search") {
  auto o = plain({10, 20, 40, 80});
  o.window = 50;
  auto g = gravac(o);
  auto highest = 0.0;
  for (int s = 0; s < 5000; ++s) {
    show(g, {0.99, 0.985, 1 / g.factor(), 8, 0.05 * (1 + std::cos(s * 3.14159 / 5000))});
    highest = std::max(highest, g.high_factor());
  }
  CHECK(highest == 80);
}

TEST_CASE("steps without known gains do not count in a window") {
  auto g = climbing({2, 4, 8, 16});
  show(g, {.low = 0.9, .high = 0.9});
  auto const climbed = g.high_factor();
  for (int step = 0; step < 5; ++step) show(g, {.low = no_number, .high = no_number});
  CHECK(g.high_factor() == climbed);
  CHECK(g.factor() == 1);
}

TEST_CASE("a ladder's first rung must be above 1") {
  for (double const first : {-1.0, 1.0, no_number}) {
    auto const refused = doctest::Contains(": first must be finite and above 1, got ");
    CHECK_THROWS_WITH_AS(factor_ladder::exponential(first, 5), refused, std::invalid_argument);
    CHECK_THROWS_WITH_AS(factor_ladder::geometric(first, 5), refused, std::invalid_argument);
  }
}
