// examples/train/controllers.hpp — controllers by name, with a log of their decisions.
#pragma once

#include "rank_exchange.hpp"

#include <pith/control/accordion.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/rate_controller.hpp>
#include <pith/exchange/codec_policy.hpp>

#include <range/v3/algorithm/contains.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace train {

inline constexpr std::array<std::string_view, 4> controller_names = {"gravac", "accordion", "fixed", "gradiveq"};

inline bool is_controller(std::string_view name) { return ranges::contains(controller_names, name); }

/// A logged controller, which measures at the rates that it chooses.
class traced_controller {
 public:
  using any = std::variant<pith::gravac, pith::accordion, pith::fixed_schedule>;

  using facets = pith::ext::facets<pith::ext::energies, pith::ext::gradient_norms>;

  traced_controller(any controller, std::vector<pith::tensor_spec> tensors)
      : controller_(std::move(controller)), tensors_(std::move(tensors)) {}

  std::string name() const {
    return std::visit([](auto const& c) { return c.name(); }, controller_);
  }
  void observe(pith::step_report const& seen) {
    decided_.push_back({seen.step, factor(seen), gain(seen), seen.seconds});
    std::visit([&](auto& c) { c.observe(seen); }, controller_);
  }
  double decide(std::uint64_t step, std::uint32_t tensor) const {
    return std::visit([=](auto const& c) { return c.decide(step, tensor); }, controller_);
  }
  pith::rate_list measures(std::uint64_t step, std::uint32_t tensor) const {
    if (auto const* const own = std::get_if<pith::gravac>(&controller_)) return own->measures(step, tensor);
    return {decide(step, tensor)};
  }
  std::vector<std::byte> save() const {
    return std::visit([](auto const& c) { return c.save(); }, controller_);
  }
  void load(pith::span<std::byte const> saved) {
    std::visit([=](auto& c) { c.load(saved); }, controller_);
  }

  std::vector<decided_step> const& decided() const { return decided_; }

 private:
  /// The sum over the reported tensors.
  double factor(pith::step_report const& seen) const {
    double all = 0, sent = 0;
    for (auto const& r : seen.tensors) {
      auto const n = static_cast<double>(tensors_[r.tensor].dims.n);
      all += n;
      sent += n * decide(seen.step, r.tensor);
    }
    return sent > 0 ? all / sent : 1;
  }
  double gain(pith::step_report const& seen) const {
    double all = 0, kept = 0;
    for (auto const& r : seen.tensors) {
      auto const rate = decide(seen.step, r.tensor);
      if (r.rate != rate && rate < 1) continue;
      all += r.energy;
      kept += rate < 1 ? r.kept : r.energy;
    }
    return all > 0 ? kept / all : 1;
  }

  any controller_;
  std::vector<pith::tensor_spec> tensors_;
  std::vector<decided_step> decided_;
};

/// Windows and intervals depend on the steps of the training and of an epoch.
inline traced_controller controller_of(std::string_view name, std::vector<pith::tensor_spec> tensors, unsigned ranks,
                                       std::size_t steps, std::size_t epoch) {
  if (name == "gravac") {
    auto options = pith::gravac_options();
    options.window = static_cast<std::uint32_t>(std::max<std::size_t>(1, steps / 36));
    options.smoothing = pith::gravac_options::smoothing_for(ranks);
    return {pith::gravac(options), std::move(tensors)};
  }
  if (name == "accordion") {
    auto const options = pith::accordion_options{.high_rate = 0.1, .low_rate = 0.001, .interval = epoch};
    return {pith::accordion(options), std::move(tensors)};
  }
  auto const entries = std::vector<pith::scheduled_rate>{{1, 0.1}, {2 + steps / 10, 0.01}, {3 + steps / 2, 0.001}};
  return {pith::fixed_schedule(entries), std::move(tensors)};
}

}  // namespace train
