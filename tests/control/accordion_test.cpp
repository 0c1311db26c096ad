// tests/control/accordion_test.cpp — the high rate while norms change.
#include <pith/control/accordion.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using pith::accordion;

constexpr double high = 0.5, low = 0.25;

accordion made(std::uint64_t interval = 1, double change = 0.5) {
  return accordion({.high_rate = high, .low_rate = low, .change = change, .interval = interval});
}

/// A step in which tensors have these norms.
void show(accordion& a, std::vector<double> norms, double learning_rate = 0.1) {
  for (auto& n : norms) n *= n;
  a.observe({0, learning_rate, 1, {}, {norms.data(), norms.size()}});
}

}  // namespace

TEST_CASE("the first interval has the high rate, and so has a norm that changed by a half or more") {
  for (auto const& expected : {std::pair{4.0, low}, std::pair{2.5, low}, std::pair{2.0, high}, std::pair{1.0, high},
                               std::pair{5.5, low}, std::pair{6.0, high}, std::pair{0.0, high}}) {
    CAPTURE(expected.first);
    auto a = made();
    CHECK(a.decide(1, 0) == high);
    show(a, {4});
    CHECK(a.decide(2, 0) == high);
    show(a, {expected.first});
    CHECK(a.decide(3, 0) == expected.second);
  }
}

TEST_CASE("accordion chooses the high rate when the previous norm was zero") {
  auto a = made();
  show(a, {0});
  show(a, {0});
  CHECK(a.decide(3, 0) == high);
  show(a, {4});
  CHECK(a.decide(4, 0) == high);
  show(a, {4});
  CHECK(a.decide(5, 0) == low);
}

TEST_CASE("tensors are looked at one by one, every interval, by the mean of their squares") {
  auto a = made(3);
  for (int s = 0; s < 3; ++s) show(a, {4, 4});
  show(a, {0, 4}), show(a, {0, 4});
  CHECK(a.decide(6, 0) == high);  // since the first look
  show(a, {0, 4});
  CHECK(a.decide(7, 0) == high);
  CHECK(a.decide(7, 1) == low);
  show(a, {9, 90}), show(a, {9, 90});
  CHECK(a.decide(9, 1) == low);
  show(a, {9, 90});
  CHECK(a.decide(10, 1) == high);
}

TEST_CASE("a fall of the learning rate is critical until the next look, a rise is not") {
  auto a = made(2);
  for (int s = 0; s < 4; ++s) show(a, {4}, 0.1);
  CHECK(a.decide(5, 0) == low);
  show(a, {4}, 0.2);
  CHECK(a.decide(6, 0) == low);
  show(a, {4}, 0.2);
  show(a, {4}, 0.02);
  CHECK(a.decide(8, 0) == high);
  show(a, {4}, 0.02);
  CHECK(a.decide(9, 0) == low);
}

TEST_CASE("a norm that is no number leads to a dense step and is left out") {
  auto a = made(), b = made();
  for (auto* each : {&a, &b}) show(*each, {4, 4});
  show(a, {std::numeric_limits<double>::quiet_NaN(), 4});
  CHECK(a.decide(3, 0) == 1);
  CHECK(a.decide(3, 1) == 1);
  for (auto* each : {&a, &b}) show(*each, {4, 4});
  CHECK(a.decide(4, 0) == b.decide(3, 0));
  CHECK(a.decide(4, 0) == low);
}

TEST_CASE("accordion_options::each_step() decides in each step, by the smoothed norm of the whole model") {
  auto a = accordion(pith::accordion_options::each_step());
  for (int s = 0; s < 3; ++s) show(a, {3, 4});
  CHECK(a.decide(4, 0) == 0.001);
  CHECK(a.decide(4, 9) == 0.001);
  // 0.98 x 25 + 0.02 x 900 = 42.5; its root is 30 % above 5.
  show(a, {30, 0});
  CHECK(a.decide(5, 0) == 0.01);
  show(a, {30, 0});
  CHECK(a.decide(6, 0) == 0.001);  // 59.65: 18 %
}

TEST_CASE("a loaded accordion controller decides like the saved one, and an empty state is refused") {
  auto a = made(2), b = made(2);
  for (int s = 0; s < 5; ++s) show(a, {4.0 * s, 4});
  b.load(a.save());
  for (int s = 0; s < 5; ++s) {
    for (std::uint32_t t = 0; t < 2; ++t) CHECK(a.decide(1, t) == b.decide(1, t));
    show(a, {1.0 + 3 * s, 4}, 0.1 / (1 + s)), show(b, {1.0 + 3 * s, 4}, 0.1 / (1 + s));
  }
  CHECK(a.save() == b.save());
  CHECK_THROWS_AS(b.load({}), std::invalid_argument);
  CHECK(a.name() == "accordion(0.5,0.25,0.5)");
}

TEST_CASE("options are checked") {
  CHECK_THROWS_WITH_AS(accordion({.high_rate = 0.1, .low_rate = 0.2}),
                       "pith::accordion: rates must be 0 < low_rate <= high_rate <= 1, got 0.2 and 0.1",
                       std::invalid_argument);
  CHECK_THROWS_AS(accordion({.interval = 0}), std::invalid_argument);
  CHECK_THROWS_AS(accordion({.smoothing = 2}), std::invalid_argument);
  CHECK_THROWS_AS(accordion({.change = -1}), std::invalid_argument);
}

TEST_CASE("a learning rate that falls a little in every step is critical once it has halved") {
  auto a = made();
  show(a, {4}, 0.1);
  int critical = 0;
  for (int s = 1; s <= 1000; ++s) {
    show(a, {4}, 0.05 * (1 + std::cos(s * 3.14159 / 1000)) + 0.001);
    critical += a.decide(0, 0) == high;
  }
  CHECK(critical == 6);  // of 0.101 to 0.001 there are six halves
}

TEST_CASE("a regime does not change after an interval without a finite step") {
  for (double const smoothing : {0.0, 0.5}) {
    auto a = accordion({.high_rate = high, .low_rate = low, .interval = 2, .smoothing = smoothing});
    for (double const norm : {1.0, 1.0, 10.0, 10.0}) show(a, {norm});
    REQUIRE(a.decide(5, 0) == high);
    for (int blind = 0; blind < 2; ++blind) show(a, {std::numeric_limits<double>::quiet_NaN()});
    show(a, {10});
    CHECK(a.decide(8, 0) == high);
  }
}
