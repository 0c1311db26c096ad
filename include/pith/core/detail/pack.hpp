// pith/core/detail/pack.hpp — packing of b-bit symbols: eight symbols fill b bytes.
#pragma once

#include <pith/config.hpp>

#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI { namespace detail {

inline constexpr std::uint64_t octet = 8;  ///< elements that share one random block and fill whole bytes

PITH_HD constexpr std::uint64_t octets(std::uint64_t n) { return n / octet + (n % octet != 0); }

PITH_HD constexpr std::uint64_t octet_size(std::uint64_t g, std::uint64_t n) {
  return n - g * octet < octet ? n - g * octet : octet;
}

/// Reads a 32-bit word, least significant byte first. Compilers turn this function into one load.
PITH_HD constexpr std::uint32_t read_word(std::uint8_t const* from) {
  return std::uint32_t{from[0]} | std::uint32_t{from[1]} << 8 | std::uint32_t{from[2]} << 16 |
         std::uint32_t{from[3]} << 24;
}
PITH_HD constexpr void write_word(std::uint32_t word, std::uint8_t* to) {
  for (unsigned i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(word >> 8 * i);
}

/// Writes `count` symbols of `bits` <= 32 bits, least significant bit first. Unused bits of the last byte are zero.
PITH_NOINLINE PITH_HD constexpr void pack(std::uint32_t const* symbols, std::uint64_t count, unsigned bits,
                                          std::uint8_t* bytes) {
  std::uint64_t pending = 0;
  unsigned held = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    pending |= std::uint64_t{symbols[i]} << held;
    held += bits;
    if (held < 32) continue;
    write_word(static_cast<std::uint32_t>(pending), bytes);
    bytes += 4, pending >>= 32, held -= 32;
  }
  for (unsigned done = 0; done < held; done += 8, pending >>= 8) *bytes++ = static_cast<std::uint8_t>(pending);
}

PITH_NOINLINE PITH_HD constexpr void unpack(std::uint8_t const* bytes, std::uint64_t count, unsigned bits,
                                            std::uint32_t* symbols) {
  auto const mask = (std::uint64_t{1} << bits) - 1;
  auto const* const end = bytes + (count * bits + 7) / 8;
  std::uint64_t pending = 0;
  unsigned held = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (held < bits && end - bytes >= 4) {
      pending |= std::uint64_t{read_word(bytes)} << held;
      bytes += 4, held += 32;
    }
    for (; held < bits; held += 8) pending |= std::uint64_t{*bytes++} << held;
    symbols[i] = static_cast<std::uint32_t>(pending & mask);
    pending >>= bits;
    held -= bits;
  }
}

/// A mask that selects the low `width` bits of each `Field`-bit field of a word.
template <unsigned Field>
PITH_HD constexpr std::uint64_t low_bits(unsigned width) {
  std::uint64_t mask = 0;
  for (unsigned at = 0; at < 64; at += Field) mask |= ((std::uint64_t{1} << width) - 1) << at;
  return mask;
}

/// Packs eight symbols of Bits <= 8 bits. In v, each symbol occupies one byte. Joins neighbouring symbols to pairs,
/// then pairs to groups of four, then groups to eight. `spread_out` is the inverse function.
template <unsigned Bits>
PITH_HD constexpr std::uint64_t close_up(std::uint64_t v) {
  constexpr auto one = low_bits<16>(Bits), two = low_bits<32>(2 * Bits), four = low_bits<64>(4 * Bits);
  if constexpr (Bits == 8) return v;
  if constexpr (Bits == 1) return (v * 0x0102040810204080u) >> 56;
  v = (v & one) | ((v >> (8 - Bits)) & (one << Bits));
  v = (v & two) | ((v >> (16 - 2 * Bits)) & (two << 2 * Bits));
  return (v & four) | ((v >> (32 - 4 * Bits)) & (four << 4 * Bits % 64));
}
template <unsigned Bits>
PITH_HD constexpr std::uint64_t spread_out(std::uint64_t v) {
  constexpr auto one = low_bits<16>(Bits), two = low_bits<32>(2 * Bits), four = low_bits<64>(4 * Bits);
  if constexpr (Bits == 8) return v;
  if constexpr (Bits == 1)
    return (((v * low_bits<8>(1)) & 0x8040201008040201u) + 0x00406070787c7e7fu) >> 7 & low_bits<8>(1);
  v = (v & four) | ((v & (four << 4 * Bits % 64)) << (32 - 4 * Bits));
  v = (v & two) | ((v & (two << 2 * Bits)) << (16 - 2 * Bits));
  return (v & one) | ((v & (one << Bits)) << (8 - Bits));
}

/// An unsigned type for eight packed symbols of Bits bits. If no type has exactly Bits bytes, the type has 64 bits.
template <unsigned Bits>
using packed_word = std::conditional_t<
    Bits == 1, std::uint8_t,
    std::conditional_t<Bits == 2, std::uint16_t, std::conditional_t<Bits == 4, std::uint32_t, std::uint64_t>>>;

/// An unsigned type for one unpacked symbol of Bits bits.
template <unsigned Bits>
using symbol_word = std::conditional_t<(Bits <= 8), std::uint8_t, std::uint16_t>;

/// `packed_octet` packs eight symbols of Bits <= 8 bits, and `unpacked_octet` unpacks them.
template <unsigned Bits>
PITH_HD packed_word<Bits> packed_octet(std::uint8_t const* symbols) {
  std::uint64_t v;
  __builtin_memcpy(&v, symbols, 8);
  return static_cast<packed_word<Bits>>(close_up<Bits>(v));
}
template <unsigned Bits>
PITH_HD void unpacked_octet(packed_word<Bits> word, std::uint8_t* symbols) {
  auto const v = spread_out<Bits>(word);
  __builtin_memcpy(symbols, &v, 8);
}

/// Reads eight packed symbols of Bits bits: 3, 5, 6 or 7 bytes in parts of 4, 2 and 1 bytes. If these bytes were copied
/// by one memcpy, g++ and clang++ would store parts to the stack and load one word, and this load waits for the stores.
template <unsigned Bits>
PITH_HD packed_word<Bits> read_packed(std::uint8_t const* bytes) {
  packed_word<Bits> word = 0;
  if constexpr (Bits == sizeof(word)) {
    __builtin_memcpy(&word, bytes, Bits);
  } else {
    if constexpr ((Bits & 4) != 0) word = read_packed<4>(bytes);
    if constexpr ((Bits & 2) != 0) word |= std::uint64_t{read_packed<2>(bytes + (Bits & 4))} << 8 * (Bits & 4);
    if constexpr ((Bits & 1) != 0) word |= std::uint64_t{bytes[Bits - 1]} << 8 * (Bits - 1);
  }
  return word;
}

template <unsigned Bits>
PITH_HD void pack_octet(symbol_word<Bits> const* symbols, std::uint64_t count, std::uint8_t* bytes) {
  if constexpr (Bits == 16) {
    for (unsigned i = 0; i < octet; ++i)
      if (i < count) __builtin_memcpy(bytes + 2 * i, symbols + i, 2);
  } else if constexpr (Bits > 8) {
    std::uint32_t wide[octet] = {};
    for (std::uint64_t i = 0; i < count; ++i) wide[i] = symbols[i];
    pack(wide, count, Bits, bytes);
  } else if (count == octet) {
    auto const word = packed_octet<Bits>(symbols);
    __builtin_memcpy(bytes, &word, Bits);
  } else {
    std::uint64_t word = 0;
    for (std::uint64_t i = 0; i < count; ++i) word |= std::uint64_t{symbols[i]} << Bits * i;
    for (std::uint64_t b = 0; 8 * b < Bits * count; ++b) bytes[b] = static_cast<std::uint8_t>(word >> 8 * b);
  }
}

template <unsigned Bits>
PITH_HD void unpack_octet(std::uint8_t const* bytes, std::uint64_t count, symbol_word<Bits>* symbols) {
  if constexpr (Bits == 16) {
    for (unsigned i = 0; i < octet; ++i)
      if (i < count) __builtin_memcpy(symbols + i, bytes + 2 * i, 2);
  } else if constexpr (Bits > 8) {
    std::uint32_t wide[octet] = {};
    unpack(bytes, count, Bits, wide);
    for (std::uint64_t i = 0; i < count; ++i) symbols[i] = static_cast<symbol_word<Bits>>(wide[i]);
  } else if (count == octet) {
    unpacked_octet<Bits>(read_packed<Bits>(bytes), symbols);
  } else {
    for (unsigned i = 0; i < octet; ++i) {  // with a fixed bound, indices are constant and symbols stay in registers
      if (i >= count) break;
      auto const at = Bits * i / 8, from = Bits * i % 8;
      unsigned two = bytes[at];
      if (from + Bits > 8) two |= static_cast<unsigned>(bytes[at + 1]) << 8;
      symbols[i] = static_cast<symbol_word<Bits>>(two >> from & low_bits<64>(Bits));
    }
  }
}

/// `pack_symbols` packs the symbols of a block, and `unpack_symbols` unpacks them. The block begins at a multiple of
/// eight elements. The threads of the block's team share the work.
template <unsigned Bits, class Team, class Count>
PITH_HD void pack_symbols(Team const& team, symbol_word<Bits> const* symbols, Count count, std::uint8_t* bytes) {
  auto const full = count / static_cast<std::uint32_t>(octet), rest = count % static_cast<std::uint32_t>(octet);
  team.for_each(full, [=](std::uint32_t g) { pack_octet<Bits>(symbols + g * octet, octet, bytes + g * Bits); });
  if (rest == 0) return;
  team.for_each(1u, [=](std::uint32_t) { pack_octet<Bits>(symbols + full * octet, rest, bytes + full * Bits); });
}
template <unsigned Bits, class Team, class Count>
PITH_HD void unpack_symbols(Team const& team, std::uint8_t const* bytes, Count count, symbol_word<Bits>* symbols) {
  auto const full = count / static_cast<std::uint32_t>(octet), rest = count % static_cast<std::uint32_t>(octet);
  team.for_each(full, [=](std::uint32_t g) { unpack_octet<Bits>(bytes + g * Bits, octet, symbols + g * octet); });
  if (rest == 0) return;
  team.for_each(1u, [=](std::uint32_t) { unpack_octet<Bits>(bytes + full * Bits, rest, symbols + full * octet); });
}
/// Returns a pointer to the unpacked symbols of a block: `bytes` if Bits is 8, otherwise `room`, into which the symbols
/// are unpacked.
template <unsigned Bits, class Team, class Count>
PITH_HD symbol_word<Bits> const* unpacked_symbols(Team const& team, std::uint8_t const* bytes, Count count,
                                                  symbol_word<Bits>* room) {
  if constexpr (Bits == 8) {
    return bytes;
  } else {
    unpack_symbols<Bits>(team, bytes, count, room);
    return room;
  }
}

}}}  // namespace pith::PITH_ABI::detail
