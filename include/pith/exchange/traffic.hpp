// pith/exchange/traffic.hpp — the bytes of a step, by the kind of collective that moves them.
#pragma once

#include <cstddef>

namespace pith::inline v0 {

/// The bytes that a rank passes to its communicator in a step, padding included.
struct traffic {
  std::size_t gathered = 0;   ///< in all-gathers: each goes to every other rank
  std::size_t summed = 0;     ///< in sums and maxima
  std::size_t scattered = 0;  ///< in all-to-alls: each goes to one rank
  std::size_t passed = 0;     ///< in swaps and shifts: each goes to one rank

  constexpr std::size_t total() const { return gathered + summed + scattered + passed; }

  /// The bytes that the rank's network interface sends with N ranks, by bandwidth-optimal collectives: N - 1 per
  /// gathered byte, 2 (N - 1) / N per summed byte, (N - 1) / N per scattered byte, 1 per passed byte.
  constexpr double sent(unsigned ranks) const {
    auto const others = ranks - 1.0;
    return others * static_cast<double>(gathered) + others / ranks * static_cast<double>(2 * summed + scattered) +
           static_cast<double>(passed);
  }

  constexpr traffic& operator+=(traffic const& other) {
    gathered += other.gathered;
    summed += other.summed;
    scattered += other.scattered;
    passed += other.passed;
    return *this;
  }
  friend constexpr traffic operator/(traffic const& t, std::size_t n) {
    return {t.gathered / n, t.summed / n, t.scattered / n, t.passed / n};
  }
  friend constexpr bool operator==(traffic const&, traffic const&) = default;
};

}  // namespace pith::inline v0
