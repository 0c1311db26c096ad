// pith/core/random.hpp — Philox4x32: counter-based random numbers, equal on every executor.
#pragma once

#include <pith/config.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// 128 random bits: four words of 32 bits, or eight lanes of 16 bits.
struct random_block {
  std::uint32_t word[4];

  PITH_HD constexpr std::uint16_t lane(unsigned i) const {
    return static_cast<std::uint16_t>(word[i / 2] >> (16 * (i % 2)));
  }
};

struct philox_key {
  std::uint32_t word[2];
};

namespace detail {

template <int Rounds>
PITH_HD constexpr random_block philox4x32(random_block counter, philox_key key) {
  for (int round = 0; round < Rounds; ++round) {
    auto const p0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    auto const p1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(p1 >> 32) ^ counter.word[1] ^ key.word[0], static_cast<std::uint32_t>(p1),
                static_cast<std::uint32_t>(p0 >> 32) ^ counter.word[3] ^ key.word[1], static_cast<std::uint32_t>(p0)}};
    key = {{key.word[0] + 0x9E3779B9u, key.word[1] + 0xBB67AE85u}};
  }
  return counter;
}

}  // namespace detail

/// The generators Philox4x32-7 and Philox4x32-10 of Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as
/// 1, 2, 3, SC 2011. Both pass the statistical tests of that paper.
PITH_HD constexpr random_block philox4x32_7(random_block counter, philox_key key) {
  return detail::philox4x32<7>(counter, key);
}
PITH_HD constexpr random_block philox4x32_10(random_block counter, philox_key key) {
  return detail::philox4x32<10>(counter, key);
}

}}  // namespace pith::PITH_ABI
