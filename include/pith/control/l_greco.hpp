// pith/control/l_greco.hpp — a controller that sends the fewest bytes for a given total error.
#pragma once

#include <pith/control/rate_controller.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The costs of one choice: its error and its number of bytes. The unit of error is a bin, which is the error limit
/// divided by l_greco_options::bins.
struct knapsack_choice {
  std::uint32_t bins;
  std::uint64_t bytes;
};

/// Picks one choice per item, so that the sum of bins is at most `budget` and the sum of bytes is minimal. Returns the
/// indices of these choices, or an empty list if every combination exceeds the budget. Of equally good choices for an
/// item, the first is picked.
inline std::vector<std::uint32_t> cheapest_choices(std::vector<std::vector<knapsack_choice>> const& items,
                                                   std::uint32_t budget) {
  constexpr auto none = std::numeric_limits<std::uint64_t>::max();
  auto const row = std::size_t{budget} + 1;
  auto cost = std::vector<std::uint64_t>(row, 0), next = cost;  // [b]: the fewest bytes within b bins
  auto taken = std::vector<std::uint16_t>(items.size() * row);
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::fill(next.begin(), next.end(), none);
    for (std::uint32_t c = 0; c < items[i].size(); ++c) {
      auto const [bins, bytes] = items[i][c];
      for (auto b = bins; b <= budget; ++b) {
        if (cost[b - bins] == none || cost[b - bins] + bytes >= next[b]) continue;
        next[b] = cost[b - bins] + bytes;
        taken[i * row + b] = static_cast<std::uint16_t>(c);
      }
    }
    std::swap(cost, next);
  }
  auto chosen = std::vector<std::uint32_t>();
  if (cost[budget] == none) return chosen;
  chosen.resize(items.size());
  for (auto i = items.size(), left = std::size_t{budget}; i-- > 0;) {
    chosen[i] = taken[i * row + left];
    left -= items[i][chosen[i]].bins;
  }
  return chosen;
}

}  // namespace detail

struct l_greco_options {
  rate_list rates = {0.001, 0.003, 0.01, 0.03, 0.1};  ///< the rates to choose from
  double reference = 0.01;                            ///< the limit is the total error with this rate for all tensors
  std::uint64_t interval = 500;                       ///< steps between two choices
  std::uint32_t bins = 10'000;                        ///< errors are rounded up to multiples of limit / bins
};

/// After each interval of steps, chooses a rate for each tensor, so that ranks send the fewest bytes with a total error
/// within a limit. The total error is the sum of |p - D(C(p))|^2 over all tensors and all steps of the last interval,
/// where p is the encoder's input. The limit is the total error with the reference rate for all tensors. Each tensor's
/// error is rounded up to a multiple of limit / bins, both in the total error and in the limit. So the total error may
/// exceed the limit by the fraction (number of tensors) / bins. Before the first choice, all tensors have the reference
/// rate.
///
///   requires    tensors whose codec measures; rates that differ, and `reference` among them (std::invalid_argument)
///   state       each tensor's errors over an interval, and the chosen rates; saved
///   complexity  n x rates x (bins + n) operations and 2 n x (bins + n) bytes per interval, on the host, for n tensors
///   on NaN      a step with a NaN or infinite energy is not added to the errors, and the next step is dense. After an
///               interval that has only such steps, the rates do not change
///   errors      if load() throws, the controller is unchanged
///   reference   Alimohammadi, Markov, Frantar and Alistarh, L-GreCo, MLSys 2024
class l_greco {
 public:
  using facets = ext::facets<ext::energies>;

  explicit l_greco(l_greco_options options = {}) : options_(std::move(options)) {
    auto const& o = options_;
    auto const is_there = std::find(o.rates.begin(), o.rates.end(), o.reference) != o.rates.end();
    detail::require(is_there, "l_greco: reference must be one of rates, got ", o.reference);
    for (auto r = o.rates.begin(); r != o.rates.end(); ++r) {
      detail::require(std::find(o.rates.begin(), r, *r) == r, "l_greco: rates must differ from each other, got ", *r,
                      " twice");
    }
    detail::require(o.interval >= 1 && o.bins >= 1, "l_greco: interval and bins must be at least 1, got ", o.interval,
                    " and ", o.bins);
  }

  std::string name() const {
    return detail::text("l_greco(", options_.rates.size(), " rates,", detail::shortest(options_.reference), ")");
  }

  void observe(step_report const& seen) {
    is_blind_ = false;
    for (auto const& r : seen.tensors) is_blind_ = is_blind_ || !std::isfinite(r.energy) || !std::isfinite(r.kept);
    if (is_blind_) {
      ++blind_steps_;
    } else {
      note(seen);
    }
    if (++steps_ % options_.interval != 0) return;
    if (blind_steps_ < static_cast<double>(options_.interval)) choose();
    blind_steps_ = 0;
    for (auto& t : trials_) t.lost = 0;
  }
  double decide(std::uint64_t, std::uint32_t tensor) const {
    if (is_blind_) return 1;
    for (auto t = first_of(tensor); t != trials_.end() && t->tensor == tensor; ++t) {
      if (t->is_chosen != 0) return t->rate;
    }
    return options_.reference;
  }
  rate_list measures(std::uint64_t, std::uint32_t) const { return options_.rates; }

  std::vector<std::byte> save() const {
    auto all = trials_;
    all.push_back({is_blind_ ? 1.0 : 0.0, blind_steps_, steps_, 0, 0});
    return saved_bytes(all.data(), all.size());
  }
  void load(span<std::byte const> saved) {
    auto all = loaded_values<trial>("l_greco", saved);
    detail::require(!all.empty(), "l_greco::load: the state must have at least ", sizeof(trial), " bytes, got 0");
    auto const rest = all.back();
    all.pop_back();
    std::ranges::stable_sort(all, {}, &trial::tensor);
    require_trials(all);
    trials_ = std::move(all);
    is_blind_ = rest.rate != 0;
    blind_steps_ = rest.lost;
    steps_ = rest.bytes;
  }

 private:
  /// A rate of a tensor, with the measured error and the payload bytes at this rate.
  struct trial {
    double rate, lost;
    std::uint64_t bytes;
    std::uint32_t tensor, is_chosen;
  };

  void require_trials(std::vector<trial> const& all) const {
    auto const& o = options_.rates;
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const& t = all[i];
      detail::require(std::isfinite(t.lost) && t.lost >= 0 && std::find(o.begin(), o.end(), t.rate) != o.end(),
                      "l_greco::load: errors must be finite, at least 0 and of one of the rates, got ", t.lost, " at ",
                      t.rate);
      detail::require(i < o.size() || all[i - o.size()].tensor != t.tensor,
                      "l_greco::load: a tensor must have at most ", o.size(), " errors, got more of tensor ", t.tensor);
    }
  }

  void note(step_report const& seen) {
    for (auto const& r : seen.tensors) {
      auto& t = trial_of(r);
      t.lost += std::max(0.0, r.energy - r.kept);
      t.bytes = r.bytes;
    }
  }

  /// The first trial of a tensor, or of the next tensor that has trials.
  std::vector<trial>::const_iterator first_of(std::uint32_t tensor) const {
    return std::ranges::lower_bound(trials_, tensor, {}, &trial::tensor);
  }
  /// Returns the trial for the tensor and the rate of a report.
  trial& trial_of(rate_report const& r) {
    auto found = first_of(r.tensor);
    while (found != trials_.end() && found->tensor == r.tensor && found->rate != r.rate) ++found;
    if (found == trials_.end() || found->tensor != r.tensor) found = trials_.insert(found, {r.rate, 0, 0, r.tensor, 0});
    return trials_[static_cast<std::size_t>(found - trials_.cbegin())];
  }

  /// Chooses the rates that send the fewest bytes with a total error within the budget. Errors are counted in units of
  /// allowed / bins, rounded up, where `allowed` is the total error at the reference rate. The budget is the sum of
  /// these counts at the reference rate, so the reference rate always fits. Because of the rounding, the budget may
  /// exceed `bins`. A rate whose error for one tensor exceeds `allowed` never fits.
  void choose() {
    double allowed = 0;
    for (auto const& t : trials_) allowed += t.rate == options_.reference ? t.lost : 0;
    if (!std::isfinite(allowed)) return take({});
    auto const bins_of = [&](double lost) {
      if (lost > allowed) return std::numeric_limits<std::uint32_t>::max();
      return lost == 0 ? 0u : static_cast<std::uint32_t>(std::ceil(lost / allowed * options_.bins));
    };
    auto items = std::vector<std::vector<detail::knapsack_choice>>();
    std::uint32_t budget = 0;
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (i == 0 || trials_[i].tensor != trials_[i - 1].tensor) items.emplace_back();
      items.back().push_back({bins_of(trials_[i].lost), trials_[i].bytes});
      if (trials_[i].rate == options_.reference) budget += items.back().back().bins;
    }
    take(detail::cheapest_choices(items, budget));
  }
  /// Applies the chosen rates. If `chosen` is empty, all tensors get the reference rate.
  void take(std::vector<std::uint32_t> const& chosen) {
    std::size_t item = 0, of_item = 0;
    for (std::size_t i = 0; i < trials_.size(); ++i, ++of_item) {
      auto& t = trials_[i];
      if (i > 0 && t.tensor != trials_[i - 1].tensor) ++item, of_item = 0;
      t.is_chosen = chosen.empty() ? t.rate == options_.reference : chosen[item] == of_item;
    }
  }

  l_greco_options options_;
  std::vector<trial> trials_;  ///< in ascending order of tensors
  std::uint64_t steps_ = 0;
  double blind_steps_ = 0;  ///< this interval's steps with a NaN or infinite energy
  bool is_blind_ = false;   ///< the last step is one of them
};

static_assert(rate_controller<l_greco>);

}}  // namespace pith::PITH_ABI
