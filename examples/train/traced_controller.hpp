// examples/train/traced_controller.hpp — a controller with a log of its decisions.
#pragma once

#include <pith/control/accordion.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/rate_controller.hpp>
#include <pith/exchange/tensor_spec.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace train {

/// The report of a step: the factor by which the sent elements were reduced (gradiveq: bytes, of all tensors), and the
/// gain 1 - |p - sent|^2 / |p|^2.
struct decided_step {
  std::uint64_t step;
  double factor, gain, seconds;
};

/// A logged controller, which measures at the rates that it chooses.
class traced_controller {
 public:
  using any = std::variant<pith::gravac, pith::gravac_by_gradients, pith::accordion, pith::fixed_schedule>;

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
    auto const measured = [&](auto const& c) -> pith::rate_list {
      if constexpr (requires { c.measures(step, tensor); }) {
        return c.measures(step, tensor);
      } else {
        return {c.decide(step, tensor)};
      }
    };
    return std::visit(measured, controller_);
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

}  // namespace train
