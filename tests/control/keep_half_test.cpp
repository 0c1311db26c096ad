// tests/control/keep_half_test.cpp — a user's controller: its decisions, and its state.
#include <doctest/doctest.h>

#include <limits>

#include "../examples/own/keep_half.hpp"

namespace {

pith::rate_report energies(double energy, double kept) { return {.energy = energy, .kept = kept}; }

}  // namespace

TEST_CASE("a user's controller halves and doubles the density between 1 / 1024 and 1") {
  auto controller = keep_half();
  auto const after = [&](double energy, double kept) {
    auto const seen = energies(energy, kept);
    controller.observe({.tensors = {&seen, 1}});
    return controller.decide(1, 0);
  };
  CHECK(controller.decide(0, 0) == 1);
  CHECK(after(4, 3) == 0.5);
  CHECK(after(4, 2) == 0.25);
  CHECK(after(4, 1) == 0.5);
  CHECK(after(4, std::numeric_limits<double>::quiet_NaN()) == 0.5);
  CHECK(after(0, 0) == 0.25);
  for (int step = 0; step < 20; ++step) after(4, 4);
  CHECK(controller.decide(1, 0) == 1.0 / 1024);
  for (int step = 0; step < 20; ++step) after(4, 0);
  CHECK(controller.decide(1, 0) == 1);
}

TEST_CASE("its state is one number, and another state changes nothing") {
  auto saved = keep_half();
  auto const seen = energies(1, 1);
  saved.observe({.tensors = {&seen, 1}});
  auto controller = keep_half();
  controller.load(saved.save());
  CHECK(controller.decide(0, 0) == 0.5);
  auto const two = pith::saved_bytes(std::vector<double>{1, 1}.data(), 2);
  CHECK_THROWS_AS(controller.load(two), std::invalid_argument);
  CHECK_THROWS_AS(controller.load({}), std::invalid_argument);
  CHECK(controller.decide(0, 0) == 0.5);
}
