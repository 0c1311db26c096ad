// pith/core/digest.hpp — a hash that ranks compare to detect that their settings differ.
#pragma once

#include <pith/config.hpp>

#include <cstdint>
#include <string_view>

namespace pith { inline namespace PITH_ABI {

/// The 64-bit FNV-1a hash.
class digest {
 public:
  constexpr digest& operator<<(std::string_view text) {
    for (char c : text) mix(static_cast<std::uint8_t>(c));
    return *this << static_cast<std::uint64_t>(text.size());
  }
  constexpr digest& operator<<(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) mix(static_cast<std::uint8_t>(number >> (8 * byte)));
    return *this;
  }
  constexpr std::uint64_t value() const { return hash_; }

 private:
  constexpr void mix(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3u; }

  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}}  // namespace pith::PITH_ABI
