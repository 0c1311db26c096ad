// pith/core/checksum.hpp — a 64-bit checksum of a payload: the sum of one term per block, in any order.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pith { inline namespace PITH_ABI {

namespace detail {

inline constexpr std::uint64_t hash_block = 16384;  ///< bytes of a block, which one thread hashes
inline constexpr std::uint64_t hash_lanes = 8;      ///< lanes of a hash, and 64-bit words per row
inline constexpr std::uint64_t hash_row = 8 * hash_lanes;

inline constexpr std::uint64_t hash_factor = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio, odd
inline constexpr std::uint64_t hash_second = 0xbb67ae8584caa73bu;  // 2^64 (sqrt 3 - 1), odd

/// A permutation of the 64-bit words. The multiplication by an odd factor propagates each bit to higher bits, and the
/// shift propagates high bits to lower bits.
PITH_HD constexpr std::uint64_t stir(std::uint64_t word) {
  word *= hash_factor;
  return (word ^ word >> 32) * hash_second;
}

/// Reads an 8-byte aligned 64-bit word of the payload.
PITH_HD inline std::uint64_t load_word(std::byte const* at) {
  std::uint64_t word;
  __builtin_memcpy(&word, __builtin_assume_aligned(at, 8), 8);
  return word;
}

/// Reads up to 8 bytes as a 64-bit word, padded with zeros.
PITH_HD inline std::uint64_t load_part(std::byte const* at, std::uint64_t bytes) {
  std::uint64_t word = 0;
  for (std::uint64_t i = 0; i < bytes && i < 8; ++i) word |= static_cast<std::uint64_t>(at[i]) << (8 * i);
  return word;
}

/// The hash of all lanes. If all lanes but one are fixed, the hash is a bijective function of that lane.
PITH_HD constexpr std::uint64_t join_lanes(std::uint64_t const* lanes, std::uint64_t bytes) {
  auto hash = stir(bytes);
  for (std::uint64_t i = 0; i < hash_lanes; ++i) hash = stir((hash ^ lanes[i]) + i);
  return hash ^ hash >> 32;
}

/// The hash of one block, which is divided into rows of hash_lanes words. The initial value of lane i is stir(i + 1).
/// For each row, lane i becomes stir(lane i ^ word i of the row). The last row is padded with zeros.
PITH_HD inline std::uint64_t hash_of(std::byte const* from, std::uint64_t bytes) {
  std::uint64_t lanes[hash_lanes], at = 0;
  for (std::uint64_t i = 0; i < hash_lanes; ++i) lanes[i] = stir(i + 1);
  for (; at + hash_row <= bytes; at += hash_row) {
    for (std::uint64_t i = 0; i < hash_lanes; ++i) lanes[i] = stir(lanes[i] ^ load_word(from + at + 8 * i));
  }
  if (at == bytes) return join_lanes(lanes, bytes);
  for (std::uint64_t i = 0; i < hash_lanes; ++i) {
    auto const first = at + 8 * i;
    lanes[i] = stir(lanes[i] ^ (first < bytes ? load_part(from + first, bytes - first) : 0));
  }
  return join_lanes(lanes, bytes);
}

/// Returns the term of block b in the checksum: stir(h + b), where h is the block's hash.
struct hash_block_at {
  std::byte const* from;
  std::uint64_t bytes;
  PITH_HD std::uint64_t operator()(std::uint64_t b) const {
    auto const first = b * hash_block;
    return stir(hash_of(from + first, bytes - first < hash_block ? bytes - first : hash_block) + b);
  }
};

struct wrapping_plus {
  PITH_HD std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

constexpr std::uint64_t hash_blocks(std::uint64_t bytes) { return bytes / hash_block + (bytes % hash_block != 0); }

}  // namespace detail

/// The checksum of `bytes`: the sum of the terms (hash_block_at) of all blocks, modulo 2^64.
///
///   properties  a change of exactly one aligned 8-byte word always changes the checksum, since each step of the hash
///               is a permutation
///   errors      detects accidental damage, but not forgery, since anyone can compute the checksum
inline std::uint64_t checksum(span<std::byte const> bytes) {
  alignas(8) std::byte block[detail::hash_block];  // `bytes` may be unaligned
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < bytes.size(); first += detail::hash_block) {
    auto const n = std::min<std::uint64_t>(detail::hash_block, bytes.size() - first);
    std::memcpy(block, bytes.data() + first, n);
    sum += detail::stir(detail::hash_of(block, n) + first / detail::hash_block);
  }
  return sum;
}

/// Writes the checksum of `bytes`, which must be 8-byte aligned, to `to`. Both are in the executor's memory. The host
/// does not wait.
template <executor E>
void checksum_into(E const& exec, std::uint64_t* to, span_on<E, std::byte const> bytes, workspace_on<E>& ws) {
  detail::require(reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 == 0,
                  "checksum_into: 'bytes' must be 8-byte aligned, got an address that is not");
  detail::reduce_into(exec, to, detail::hash_blocks(bytes.size()), detail::hash_block_at{bytes.data(), bytes.size()},
                      detail::wrapping_plus{}, std::uint64_t{0}, ws);
}

/// The workspace bytes that `checksum_into` needs for `bytes` bytes.
template <executor E>
std::size_t checksum_scratch_bytes(E const&, std::uint64_t bytes) {
  return detail::reduce_scratch_bytes<std::uint64_t>(detail::hash_blocks(bytes));
}

}}  // namespace pith::PITH_ABI
