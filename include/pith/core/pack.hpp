// pith/core/pack.hpp — eight symbols to as many bytes as a symbol has bits, and back.
#pragma once

#include <pith/config.hpp>

#include <cstdint>

namespace pith::inline v0::detail {

inline constexpr std::uint64_t group = 8;  ///< elements that share a random block and whole bytes

PITH_HD constexpr std::uint64_t groups(std::uint64_t n) { return n / group + (n % group != 0); }

PITH_HD constexpr std::uint64_t group_size(std::uint64_t g, std::uint64_t n) {
  return n - g * group < group ? n - g * group : group;
}

/// Writes `count` symbols of `bits` <= 32 bits, least significant bit first; the last byte's spare bits are zero.
PITH_HD constexpr void pack(std::uint32_t const* symbols, std::uint64_t count, unsigned bits, std::uint8_t* bytes) {
  std::uint64_t pending = 0;
  unsigned held = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    pending |= static_cast<std::uint64_t>(symbols[i]) << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *bytes++ = static_cast<std::uint8_t>(pending);
  }
  if (held > 0) *bytes = static_cast<std::uint8_t>(pending);
}

PITH_HD constexpr void unpack(std::uint8_t const* bytes, std::uint64_t count, unsigned bits, std::uint32_t* symbols) {
  auto const mask = (std::uint64_t{1} << bits) - 1;
  std::uint64_t pending = 0;
  unsigned held = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    for (; held < bits; held += 8) pending |= static_cast<std::uint64_t>(*bytes++) << held;
    symbols[i] = static_cast<std::uint32_t>(pending & mask);
    pending >>= bits;
    held -= bits;
  }
}

}  // namespace pith::inline v0::detail
