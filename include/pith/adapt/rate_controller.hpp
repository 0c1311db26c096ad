// pith/adapt/rate_controller.hpp — what chooses the rate of each tensor, on all ranks alike.
#pragma once

#include <pith/core/span.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pith::inline v0 {

/// What one rate keeps of one tensor, reduced over the ranks, so that all see equal numbers.
struct rate_report {
  std::uint32_t tensor = 0;
  double rate = 1;
  double energy = 0;        ///< |p|^2
  double kept = 0;          ///< |D(C(p))|^2
  std::uint64_t bytes = 0;  ///< of the payload
};

/// What the ranks agree on after a step. A tensor may be reported at several rates.
struct step_report {
  std::uint64_t step = 0;
  double learning_rate = 0;
  double seconds = 0;  ///< of the slowest rank
  span<rate_report const> tensors;
};

/// Decides as a pure function of what it observed, so that ranks which observe equal reports decide alike; what it
/// remembers is saved and loaded as bytes.
template <class R>
concept rate_controller = std::copyable<R> && requires(R& r, R const& c, step_report const& seen, std::uint64_t step,
                                                       std::uint32_t tensor, span<std::byte const> saved) {
  { c.name() } -> std::convertible_to<std::string>;
  { r.observe(seen) } -> std::same_as<void>;
  { c.decide(step, tensor) } -> std::same_as<double>;
  { c.save() } -> std::same_as<std::vector<std::byte>>;
  { r.load(saved) } -> std::same_as<void>;
};

}  // namespace pith::inline v0
