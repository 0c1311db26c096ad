// pith/control/fixed_schedule.hpp — a list of rates and the steps at which they begin.
#pragma once

#include <pith/control/rate_controller.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// A rate that applies from step `first` until the next entry of the schedule begins.
struct scheduled_rate {
  std::uint64_t first;
  double rate;
};

/// A controller with fixed rates. The rate of a step is the rate of the last entry with first <= step. Before the first
/// entry the rate is 1, which means dense.
///
///   requires    ascending steps, rates in (0, 1] (std::invalid_argument)
///   state       none, since the rate is a function of the step number. The first step has number 1
class fixed_schedule {
 public:
  explicit fixed_schedule(std::vector<scheduled_rate> entries) : entries_(std::move(entries)) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      auto const& [first, rate] = entries_[i];
      detail::require(0 < rate && rate <= 1, "fixed_schedule: rate must be in (0, 1], got ", rate);
      auto const before = i == 0 ? 0 : entries_[i - 1].first;
      detail::require(i == 0 || before < first, "fixed_schedule: first must be above ", before,
                      ", that of the entry before, got ", first);
    }
  }

  std::string name() const {
    auto text = std::string("fixed_schedule(");
    for (auto const& e : entries_)
      text += detail::text(&e == entries_.data() ? "" : ",", e.first, ":", detail::shortest(e.rate));
    return text + ")";
  }

  void observe(step_report const&) {}
  double decide(std::uint64_t step, std::uint32_t) const {
    auto const later = [](std::uint64_t s, scheduled_rate const& e) { return s < e.first; };
    auto const next = std::upper_bound(entries_.begin(), entries_.end(), step, later);
    return next == entries_.begin() ? 1 : std::prev(next)->rate;
  }

  std::vector<std::byte> save() const { return {}; }
  void load(span<std::byte const> saved) {
    detail::require(saved.empty(), "fixed_schedule::load: the state must have 0 bytes, got ", saved.size());
  }

 private:
  std::vector<scheduled_rate> entries_;
};

static_assert(rate_controller<fixed_schedule>);

}}  // namespace pith::PITH_ABI
