// tests/control/l_greco_test.cpp — rates of all tensors by a knapsack of errors.
#include <pith/control/l_greco.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using pith::l_greco;
using pith::detail::knapsack_choice;

/// By trying all.
std::uint64_t fewest_bytes(std::vector<std::vector<knapsack_choice>> const& items, std::size_t i, std::int64_t left) {
  if (left < 0) return std::numeric_limits<std::uint32_t>::max();
  if (i == items.size()) return 0;
  std::uint64_t best = std::numeric_limits<std::uint32_t>::max();
  for (auto const& c : items[i]) best = std::min(best, c.bytes + fewest_bytes(items, i + 1, left - c.bins));
  return best;
}

l_greco l_greco_of_three() { return l_greco({.rates = {0.01, 0.1, 0.5}, .reference = 0.1, .interval = 1, .bins = 1000}); }

/// Tensor 0 loses much where it sends little, tensor 1 next to nothing; both lose less where they send more.
std::vector<pith::rate_report> const reports = {{0, 0.01, 100, 20, 10}, {0, 0.1, 100, 60, 100}, {0, 0.5, 100, 95, 500},
                                                {1, 0.01, 10, 9, 1},    {1, 0.1, 10, 9.5, 10},  {1, 0.5, 10, 9.9, 50}};

void show(l_greco& l, std::vector<pith::rate_report> const& seen) {
  l.observe({0, 0, 1, {seen.data(), seen.size()}, {}});
}

}  // namespace

TEST_CASE("no choice within the budget is cheaper") {
  auto random = std::mt19937(3);
  for (int trial = 0; trial < 300; ++trial) {
    auto items = std::vector<std::vector<knapsack_choice>>(1 + random() % 5);
    for (auto& item : items) {
      item.resize(1 + random() % 4);
      for (auto& c : item) c = {static_cast<std::uint32_t>(random() % 12), random() % 50};
    }
    auto const budget = static_cast<std::uint32_t>(random() % 30);
    auto const chosen = pith::detail::cheapest_choices(items, budget);
    auto const best = fewest_bytes(items, 0, budget);
    if (best >= std::numeric_limits<std::uint32_t>::max()) {
      CHECK(chosen.empty());
      continue;
    }
    REQUIRE(chosen.size() == items.size());
    std::uint64_t bins = 0, bytes = 0;
    for (std::size_t i = 0; i < items.size(); ++i) bins += items[i][chosen[i]].bins, bytes += items[i][chosen[i]].bytes;
    CHECK(bins <= budget);
    CHECK(bytes == best);
  }
}

TEST_CASE("l_greco gives all tensors the reference rate before its first choice and where no choice is cheaper") {
  auto l = l_greco_of_three();
  CHECK(l.decide(1, 0) == 0.1);
  CHECK(l.decide(1, 5) == 0.1);
  CHECK(l.measures(1, 0) == pith::rate_list{0.01, 0.1, 0.5});
  show(l, reports);
  // 40.5 may be lost: tensor 0 must lose 40, and tensor 1 may lose 0.5.
  CHECK(l.decide(2, 0) == 0.1);
  CHECK(l.decide(2, 1) == 0.1);
}

TEST_CASE("a tensor that loses little sends less, for one that loses much") {
  auto seen = reports;
  seen[0].kept = 60;  // tensor 0 loses no more at 0.01: 40 + 0.5
  auto l = l_greco_of_three();
  show(l, seen);
  CHECK(l.decide(2, 0) == 0.01);
  CHECK(l.decide(2, 1) == 0.1);
  seen[0].kept = 20, seen[4].kept = 8, seen[3].kept = 8;  // tensor 1 loses as much at 0.01
  show(l, seen);
  CHECK(l.decide(3, 0) == 0.1);
  CHECK(l.decide(3, 1) == 0.01);
}

TEST_CASE("l_greco never chooses a rate whose error exceeds the limit, however coarse the bins are") {
  // 10.002 may be lost. Of 10 bins the reference takes 10, 1 and 1; at 0.5 nothing is lost, so that all 12 are left for
  // tensor 0, which loses a million at 0.01.
  auto const seen =
      std::vector<pith::rate_report>{{0, 0.01, 2e6, 1e6, 1}, {0, 0.1, 2e6, 2e6 - 10, 1000}, {0, 0.5, 2e6, 2e6, 5000},
                                     {1, 0.01, 10, 9, 1},    {1, 0.1, 10, 9.999, 10},       {1, 0.5, 10, 10, 50},
                                     {2, 0.01, 10, 9, 1},    {2, 0.1, 10, 9.999, 10},       {2, 0.5, 10, 10, 50}};
  auto l = l_greco({.rates = {0.01, 0.1, 0.5}, .reference = 0.1, .interval = 1, .bins = 10});
  show(l, seen);
  CHECK(l.decide(2, 0) == 0.1);
  CHECK(l.decide(2, 1) == 0.01);
  CHECK(l.decide(2, 2) == 0.01);
}

TEST_CASE("errors of an interval are added up, and one that is no number is left out") {
  auto l = l_greco({.rates = {0.01, 0.1, 0.5}, .reference = 0.1, .interval = 3, .bins = 1000});
  auto cheap = reports, spoilt = reports;
  cheap[0].kept = 60;
  spoilt[5].kept = std::numeric_limits<double>::quiet_NaN();
  show(l, cheap);
  CHECK(l.decide(2, 0) == 0.1);
  show(l, spoilt);
  CHECK(l.decide(3, 0) == 1);
  show(l, cheap);
  CHECK(l.decide(4, 0) == 0.01);
}

TEST_CASE("a loaded l_greco controller decides like the saved one, and invalid settings are refused") {
  auto a = l_greco_of_three(), b = l_greco_of_three();
  auto seen = reports;
  seen[0].kept = 60;
  show(a, seen);
  b.load(a.save());
  for (std::uint32_t t = 0; t < 2; ++t) CHECK(a.decide(2, t) == b.decide(2, t));
  CHECK(a.save() == b.save());
  CHECK(a.name() == "l_greco(3 rates,0.1)");
  CHECK_THROWS_WITH_AS(l_greco({.rates = {0.1}, .reference = 0.2}),
                       "pith::l_greco: reference must be one of rates, got 0.2", std::invalid_argument);
  CHECK_THROWS_AS(l_greco({.interval = 0}), std::invalid_argument);
  CHECK_THROWS_AS(b.load({}), std::invalid_argument);
}

TEST_CASE("a state of other rates or with invalid errors is refused, and changes nothing") {
  auto l = l_greco_of_three();
  show(l, reports);
  auto const saved = l.save();
  auto const infinity = std::numeric_limits<double>::infinity();
  for (std::size_t const word : {0u, 1u}) {  // a rate, an error
    for (double const odd : {-1.0, 1.5, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}) {
      if (word == 1 && odd == 1.5) continue;
      auto forged = saved;
      std::memcpy(forged.data() + 8 * word, &odd, sizeof odd);
      CHECK_THROWS_AS(l.load(pith::span<std::byte const>(forged)), std::invalid_argument);
      CHECK(l.save() == saved);
    }
  }
}

TEST_CASE("l_greco gives all tensors the reference rate when the errors of an interval add up to infinity") {
  auto l = l_greco({.rates = {0.01, 0.1, 0.5}, .reference = 0.1, .interval = 2, .bins = 1000});
  auto seen = reports;
  for (auto& r : seen) r.energy = std::numeric_limits<double>::max(), r.kept = 0;
  show(l, seen);
  show(l, seen);
  CHECK(l.decide(3, 0) == 0.1);
  CHECK(l.decide(3, 1) == 0.1);
}

TEST_CASE("l_greco keeps its rates after an interval without a finite step") {
  auto l = l_greco({.rates = {0.01, 0.1, 0.5}, .reference = 0.1, .interval = 2, .bins = 1000});
  show(l, reports), show(l, reports);
  auto const chosen = std::pair{l.decide(3, 0), l.decide(3, 1)};
  auto spoilt = reports;
  for (auto& r : spoilt) r.energy = std::numeric_limits<double>::quiet_NaN();
  show(l, spoilt);
  auto resumed = l_greco({.rates = {0.01, 0.1, 0.5}, .reference = 0.1, .interval = 2, .bins = 1000});
  resumed.load(l.save());
  for (auto* const each : {&l, &resumed}) {
    show(*each, spoilt);
    CHECK(each->decide(5, 0) == 1);
    show(*each, reports);
    CHECK(std::pair{each->decide(6, 0), each->decide(6, 1)} == chosen);
  }
}

TEST_CASE("l_greco refuses a rate that is listed twice") {
  CHECK_THROWS_WITH_AS(l_greco({.rates = {0.1, 0.2, 0.2}, .reference = 0.2}),
                       doctest::Contains("l_greco: rates must differ from each other, got 0.2 twice"),
                       std::invalid_argument);
}
