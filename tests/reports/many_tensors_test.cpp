// tests/reports/many_tensors_test.cpp — the time of a call is linear in the number of tensors. With quadratic time,
// each of these tests would take minutes or hours. Compare pytorch/pytorch#61398, where a load takes 200 times as long.
#include <pith/codec/detail/saved_state.hpp>
#include <pith/comm/self.hpp>
#include <pith/control/gradiveq.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// The description of an exchange's states with one field per kind and tensor. `last` is the name of the last tensor.
std::string words_of_many(std::size_t many, std::string const& rank, std::string const& kinds,
                          std::string const& last) {
  auto words = "gradient_exchange\n" + rank + "\nseed 0\nelements of float\n";
  for (std::size_t i = 0; i < many; ++i) {
    words += "tensor \"" + (i + 1 < many ? std::to_string(1'000'000 + i) : last) + "\" of 1\n";
    for (auto const kind : kinds)
      words += pith::detail::field_line({pith::field_kind(kind - '0'), "float", 1, 1, 0}) + '\n';
  }
  return words;
}

}  // namespace

TEST_CASE("descriptions that differ in the last of many tensors are refused") {
  constexpr std::size_t many = 150'000;
  auto const own = words_of_many(many, "rank 0 of 1", "2", "weight");
  for (auto const* const last : {"height", "weights", ""}) {
    auto const other = words_of_many(many, "rank 0 of 1", "2", last);
    CHECK_THROWS_WITH_AS(pith::detail::require_words("import", own, other),
                         doctest::Contains("the state must be of tensor \"weight\" of 1, got one of tensor"),
                         std::invalid_argument);
  }
  CHECK_THROWS_WITH_AS(pith::detail::require_words("import", own, std::string_view(own).substr(0, own.size() - 40)),
                       doctest::Contains("the state must"), std::invalid_argument);
  pith::detail::require_words("import", own, own);
}

TEST_CASE("states of many tensors with a field of each kind are converted") {
  constexpr std::size_t many = 50'000;
  auto const kinds = std::string("0123");  // replicated, mean, share, estimate
  auto states = std::vector<std::vector<std::byte>>();
  for (auto const* const rank : {"rank 0 of 3", "rank 2 of 3"}) {  // the state of rank 1 is missing
    auto values = std::vector<std::byte>(many * kinds.size() * sizeof(float));
    states.push_back(pith::detail::save_states(words_of_many(many, rank, kinds, "weight"), values));
  }
  CHECK(pith::reshard(states, 2, 1).size() == states[0].size());
}

TEST_CASE("l_greco decides on the rates of many tensors") {
  constexpr std::size_t many = 150'000;
  auto controller = pith::l_greco({.rates = {0.1, 0.5}, .reference = 0.5, .interval = 100});
  auto reports = std::vector<pith::rate_report>();
  for (std::uint32_t tensor = 0; tensor < many; ++tensor) {
    for (auto const rate : {0.1, 0.5}) reports.push_back({tensor, rate, 2, 1, 8});
  }
  for (std::uint64_t step = 1; step <= 2; ++step) controller.observe({step, 0.1, 1, {reports.data(), reports.size()}});
  auto loaded = controller;
  loaded.load(controller.save());
  double sum = 0;
  for (std::uint32_t tensor = 0; tensor < many; ++tensor) sum += loaded.decide(3, tensor);
  CHECK(sum == 0.5 * many);
}

TEST_CASE("gradiveq takes many convolutions") {
  constexpr std::size_t many = 100'000;
  auto comm = pith::self_communicator();
  auto convolutions = std::vector<pith::gradiveq_tensor>();
  for (std::size_t i = 0; i < many; ++i) convolutions.push_back({i, {1, 1, 2, 2}});
  auto exchange = pith::make_exchange<float>(pith::seq, comm, std::vector<pith::tensor_spec>(many, {"conv", {4}}),
                                             pith::parse<float>("identity"));
  auto schedule = pith::gradiveq(pith::seq, comm, exchange, convolutions);
  CHECK(schedule.phase() == pith::gradiveq_phase::warm_up);
}
