// tests/fuzz/state_controllers.hpp — bytes that controllers saved.
#pragma once

#include <pith/control/accordion.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/l_greco.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "edit.hpp"
#include "state_vectors.hpp"

namespace fuzz {

/// All that looks at its ladder or at norms does so every other step.
inline pith::gravac short_gravac() { return pith::gravac({.window = 2, .samples = 1}); }
inline pith::accordion short_accordion() {
  return pith::accordion({.high_rate = 0.5, .low_rate = 0.1, .change = 0.01, .interval = 2});
}
inline pith::l_greco short_l_greco() {
  return pith::l_greco({.rates = {0.5, 0.25, 0.1}, .reference = 0.25, .interval = 2, .bins = 100});
}

/// A step of two tensors, at the rates of the controller.
template <class R>
void observe(R& controller, std::uint64_t step, double energy, double kept) {
  auto reports = std::vector<pith::rate_report>();
  for (std::uint32_t tensor = 0; tensor < 2; ++tensor) {
    for (auto const rate : pith::detail::rates_to_measure(controller, step, tensor))
      reports.push_back({tensor, rate, energy, kept * (0.9 + rate / 10), static_cast<std::uint64_t>(1000 * rate)});
  }
  double const gradients[] = {energy, kept};
  controller.observe({step, 0.1, 1, {reports.data(), reports.size()}, {gradients, 2}});
}

/// Every rate is one that a codec takes.
template <class R>
void require_rates(R const& controller, std::uint64_t step) {
  for (std::uint32_t tensor = 0; tensor < 3; ++tensor) {
    auto const rate = controller.decide(step, tensor);
    require(0 < rate && rate <= 1, "a controller decided on what is no rate");
    static_cast<void>(pith::detail::rates_to_measure(controller, step, tensor));
  }
}

/// What is refused changes nothing. What is accepted is saved as it is, and the controller goes on with it.
template <class R>
void load_controller(R const& fresh, input& from) {
  auto controller = fresh;
  auto const steps = from.take_below(4);
  for (std::uint64_t step = 1; step <= steps; ++step) observe(controller, step, 2, 2);
  auto const before = controller.save();
  auto bytes = before;
  for (auto edits = from.take_below(8); edits > 0; --edits) resize_or_edit(bytes, from);
  if (!accepts([&] { controller.load(pith::span<std::byte const>(bytes)); }))
    return require(controller.save() == before, "a refused state changed a controller");
  auto again = fresh;
  again.load(pith::span<std::byte const>(controller.save()));
  require(again.save() == controller.save(), "a state is not the one that was loaded");
  require_rates(controller, 1);
  for (std::uint64_t step = 2; step < 7; ++step) {
    observe(controller, step, std::bit_cast<double>(odd_word(from)), std::bit_cast<double>(odd_word(from)));
    require_rates(controller, step);
  }
}

inline void load_gravac(input& from) { load_controller(short_gravac(), from); }
inline void load_accordion(input& from) { load_controller(short_accordion(), from); }
inline void load_l_greco(input& from) { load_controller(short_l_greco(), from); }

}  // namespace fuzz
