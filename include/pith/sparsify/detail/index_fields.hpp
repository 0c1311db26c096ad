// pith/sparsify/detail/index_fields.hpp — the low bits of indices, packed in fields of equal width.
#pragma once

#include <pith/core/detail/pack.hpp>
#include <pith/core/executor.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

PITH_HD constexpr std::uint32_t low_mask(unsigned bits) {
  return static_cast<std::uint32_t>((std::uint64_t{1} << bits) - 1);
}

constexpr std::uint64_t field_bytes(std::uint64_t k, unsigned bits) { return k / 8 * bits + (k % 8 * bits + 7) / 8; }

/// Bytes as 32-bit words, least significant byte first. Neighbouring threads of a device access neighbouring words. The
/// last word may have fewer than four bytes, and `bytes` may have any alignment.
template <class Byte>
struct index_words {
  Byte* bytes;
  std::uint64_t size;  ///< in bytes

  PITH_HD bool is_whole(std::uint64_t w) const { return 4 * w + 4 <= size; }
  PITH_HD bool is_aligned(std::uint64_t w) const {
    return is_whole(w) && reinterpret_cast<std::uintptr_t>(bytes) % 4 == 0;
  }
  PITH_HD std::uint32_t get(std::uint64_t w) const {
    auto const* const at = bytes + 4 * w;
    if (is_aligned(w)) return *reinterpret_cast<std::uint32_t const*>(at);
    if (is_whole(w)) return read_word(at);
    std::uint32_t word = 0;
    for (unsigned b = 0; 4 * w + b < size; ++b) word |= std::uint32_t{at[b]} << 8 * b;
    return word;
  }
  /// Returns `bits` bits from bit `at` on. On a host, one load of 64 bits is faster than two aligned loads.
  PITH_HD std::uint32_t field(std::uint64_t at, unsigned bits) const {
#if !defined(__CUDA_ARCH__)
    if (at / 8 + 8 <= size) {
      std::uint64_t all;
      __builtin_memcpy(&all, bytes + at / 8, 8);
      return static_cast<std::uint32_t>(all >> at % 8) & low_mask(bits);
    }
#endif
    auto const w = at / 32;
    auto const shift = static_cast<unsigned>(at % 32);
    std::uint64_t const above = shift + bits > 32 ? get(w + 1) : 0;
    return bits == 0 ? 0 : static_cast<std::uint32_t>((get(w) | above << 32) >> shift) & low_mask(bits);
  }
  PITH_HD void put(std::uint64_t w, std::uint32_t word) const {
    auto* const at = bytes + 4 * w;
    if (is_aligned(w)) {
      *reinterpret_cast<std::uint32_t*>(at) = word;
    } else if (is_whole(w)) {
      write_word(word, at);
    } else {
      for (unsigned b = 0; 4 * w + b < size; ++b) at[b] = static_cast<std::uint8_t>(word >> 8 * b);
    }
  }
};

struct pack_octet_of_indices {
  std::uint32_t const* indices;
  std::uint8_t* bytes;
  std::uint64_t k;
  unsigned bits;
  PITH_HD void operator()(std::uint64_t g) const {
    auto const count = octet_size(g, k);
    std::uint32_t low[octet] = {};
    for (std::uint64_t i = 0; i < count; ++i) low[i] = indices[g * octet + i] & low_mask(bits);
    pack(low, count, bits, bytes + g * bits);
  }
};

/// Writes one word of the fields. 32 fields fill `bits` words.
struct pack_word_of_indices {
  std::uint32_t const* indices;
  index_words<std::uint8_t> to;
  std::uint64_t k;
  unsigned bits;
  PITH_HD void operator()(std::uint64_t w) const {
    auto const group = static_cast<std::uint32_t>(w) / bits, begin = 32 * (static_cast<std::uint32_t>(w) % bits);
    auto i = std::uint64_t{32} * group + begin / bits;
    std::uint32_t word = 0;
    for (auto at = begin / bits * bits; at < begin + 32 && i < k; at += bits, ++i) {
      auto const low = indices[i] & low_mask(bits);
      word |= at < begin ? low >> (begin - at) : low << (at - begin);
    }
    to.put(w, word);
  }
};

struct unpack_index {
  index_words<std::uint8_t const> from;
  std::uint32_t* indices;
  std::uint32_t last;
  unsigned bits;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const index = from.field(i * bits, bits);
    indices[i] = index < last ? index : last;
  }
};

/// Packs the low `bits` bits of k indices, least significant bit first.
template <executor E>
void pack_fields(E const& exec, std::uint32_t const* indices, std::uint64_t k, unsigned bits, std::uint8_t* bytes) {
  if constexpr (host_executor<E>) {
    exec.for_each_index(octets(k), pack_octet_of_indices{indices, bytes, k, bits});
  } else {
    auto const size = field_bytes(k, bits);
    exec.for_each_index((size + 3) / 4, pack_word_of_indices{indices, {bytes, size}, k, bits});
  }
}

/// Unpacks k fields. A field above `last` becomes `last`.
template <executor E>
void unpack_fields(E const& exec, std::uint8_t const* bytes, std::uint64_t k, unsigned bits, std::uint32_t last,
                   std::uint32_t* indices) {
  exec.for_each_index(k, unpack_index{{bytes, field_bytes(k, bits)}, indices, last, bits});
}

}}}  // namespace pith::PITH_ABI::detail
