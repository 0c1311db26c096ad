// tests/control/fixed_schedule_test.cpp — rates that begin at steps.
#include <pith/control/fixed_schedule.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

TEST_CASE("a rate holds from its step until the next one begins; before the first all travels") {
  auto const schedule = pith::fixed_schedule({{3, 0.5}, {10, 0.25}, {11, 1}});
  auto const expected = {1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 1.0, 1.0};
  for (std::uint64_t step = 0; step < expected.size(); ++step)
    CHECK(schedule.decide(step, 4) == expected.begin()[step]);
  CHECK(pith::fixed_schedule({}).decide(7, 0) == 1);
  CHECK(schedule.name() == "fixed_schedule(3:0.5,10:0.25,11:1)");
}

TEST_CASE("steps rise, and rates are rates") {
  CHECK_THROWS_WITH_AS(pith::fixed_schedule({{3, 0.5}, {3, 0.25}}),
                       "pith::fixed_schedule: first must be above 3, that of the entry before, got 3",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::fixed_schedule({{3, 0}}), "pith::fixed_schedule: rate must be in (0, 1], got 0",
                       std::invalid_argument);
  auto schedule = pith::fixed_schedule({{3, 0.5}});
  schedule.load(schedule.save());
  auto const byte = std::byte{};
  CHECK_THROWS_AS(schedule.load({&byte, 1}), std::invalid_argument);
}
