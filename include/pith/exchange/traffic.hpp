// pith/exchange/traffic.hpp — the bytes of a step, by the kind of collective that moves them.
#pragma once

#include <pith/config.hpp>

#include <cstddef>

namespace pith { inline namespace PITH_ABI {

/// The numbers of bytes that a rank passes to its communicator in a step, padding included.
struct traffic {
  std::size_t gathered = 0;   ///< bytes in all-gathers; each byte is sent to every other rank
  std::size_t summed = 0;     ///< bytes in all-reduces
  std::size_t scattered = 0;  ///< bytes in all-to-alls; each byte is sent to one rank
  std::size_t passed = 0;     ///< bytes in swaps and shifts; each byte is sent to one rank

  constexpr std::size_t total() const { return gathered + summed + scattered + passed; }

  /// The number of bytes that the rank's network interface sends with N ranks, if the collectives are bandwidth-optimal
  /// and all transfers are among all ranks. The report of an exchange (`wire_bytes`) also counts transfers within
  /// subgroups. The interface then sends N - 1 bytes per gathered byte, 2 (N - 1) / N bytes per summed byte, (N - 1) /
  /// N bytes per scattered byte, and 1 byte per passed byte.
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

}}  // namespace pith::PITH_ABI
