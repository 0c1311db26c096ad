// examples/train/controllers.hpp — controllers by name.
#pragma once

#include "traced_controller.hpp"

#include <range/v3/algorithm/contains.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace train {

inline constexpr std::array<std::string_view, 4> controller_names = {"gravac", "accordion", "fixed", "gradiveq"};

inline bool is_controller(std::string_view name) { return ranges::contains(controller_names, name); }

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
