// tests/control/warm_up_test.cpp — the density of the first epochs.
#include <pith/control/warm_up.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

TEST_CASE("75, 93.75, 98.4, 99.6 and then 99.9 % are left out") {
  auto const schedule = pith::warm_up(0.001, 100);
  auto const expected = {0.25, 0.0625, 0.015625, 0.00390625, 0.001, 0.001};
  std::uint64_t first = 1;
  for (auto const rate : expected) {
    CHECK(schedule.decide(first, 0) == rate);
    CHECK(schedule.decide(first + 99, 7) == rate);
    first += 100;
  }
  CHECK(schedule.decide(~std::uint64_t{0}, 0) == 0.001);
  CHECK(schedule.decide(0, 0) == 0.25);
}

TEST_CASE("a density above the first rate is taken at once") {
  CHECK(pith::warm_up(0.5, 10).decide(1, 0) == 0.5);
  CHECK(pith::warm_up(0.1, 1, 0.5).decide(3, 0) == 0.125);
}

TEST_CASE("warm_up has no state, names its parameters and refuses invalid arguments") {
  auto schedule = pith::warm_up(0.001, 100);
  auto const before = schedule.decide(150, 0);
  schedule.observe({});
  schedule.load(schedule.save());
  CHECK(schedule.decide(150, 0) == before);
  CHECK(schedule.name() == "warm_up(0.001,100,0.25)");
  auto const byte = std::byte{};
  CHECK_THROWS_AS(schedule.load({&byte, 1}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::warm_up(0, 1), "pith::warm_up: density must be in (0, 1], got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::warm_up(1, 0), "pith::warm_up: steps must be at least 1, got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::warm_up(1, 1, 1), "pith::warm_up: fall must be in (0, 1), got 1", std::invalid_argument);
}
