// pith/sparsify/packed_indices.hpp — indices below n, packed at a fixed width of ceil(log2 n) bits.
#pragma once

#include <pith/codec/stage.hpp>
#include <pith/core/detail/pack.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// An index coder, a parameter of sparsifiers, writes k ascending indices below n to side information and reads them
/// back. Decoded indices are below n even if the side information is corrupt.
template <class C, class E = archetype>
concept index_coder = std::copyable<C> &&
    requires(C const& c, E const& exec, std::uint64_t n, std::uint64_t k, std::uint32_t* indices,
             span_on<E, std::byte> side, span_on<E, std::byte const> coded, workspace_on<E>& ws) {
  { c.name() } -> std::convertible_to<std::string>;
  { c.side_bytes(n, k) } -> std::same_as<std::size_t>;
  { c.scratch_bytes(exec, n, k) } -> std::same_as<std::size_t>;
  { c.encode(exec, n, k, indices, side, ws) } -> std::same_as<void>;
  { c.decode(exec, n, k, coded, indices, ws) } -> std::same_as<void>;
};

struct pack_indices {
  std::uint32_t const* indices;
  std::uint8_t* bytes;
  std::uint64_t k;
  unsigned bits;
  PITH_HD void operator()(std::uint64_t g) const {
    pack(indices + g * octet, octet_size(g, k), bits, bytes + g * bits);
  }
};

/// Packed indices as 32-bit words, least significant byte first. Neighbouring threads of a device access neighbouring
/// words. The last word may have fewer than four bytes, and `bytes` may have any alignment.
template <class Byte>
struct index_words {
  Byte* bytes;
  std::uint64_t size;  ///< in bytes

  PITH_HD bool is_whole(std::uint64_t w) const {
    return 4 * w + 4 <= size && reinterpret_cast<std::uintptr_t>(bytes) % 4 == 0;
  }
  PITH_HD std::uint32_t get(std::uint64_t w) const {
    if (is_whole(w)) return reinterpret_cast<std::uint32_t const*>(bytes)[w];
    std::uint32_t word = 0;
    for (unsigned b = 0; b < 4 && 4 * w + b < size; ++b) word |= std::uint32_t{bytes[4 * w + b]} << 8 * b;
    return word;
  }
  PITH_HD void put(std::uint64_t w, std::uint32_t word) const {
    if (is_whole(w)) {
      reinterpret_cast<std::uint32_t*>(bytes)[w] = word;
    } else {
      for (unsigned b = 0; b < 4 && 4 * w + b < size; ++b) bytes[4 * w + b] = static_cast<std::uint8_t>(word >> 8 * b);
    }
  }
};

/// Writes one word of the packed indices. 32 indices fill `bits` words.
struct pack_word {
  std::uint32_t const* indices;
  index_words<std::uint8_t> to;
  std::uint64_t k;
  unsigned bits;
  PITH_HD void operator()(std::uint64_t w) const {
    auto const group = static_cast<std::uint32_t>(w) / bits, begin = 32 * (static_cast<std::uint32_t>(w) % bits);
    auto i = std::uint64_t{32} * group + begin / bits;
    std::uint32_t word = 0;
    for (auto at = begin / bits * bits; at < begin + 32 && i < k; at += bits, ++i) {
      word |= at < begin ? indices[i] >> (begin - at) : indices[i] << (at - begin);
    }
    to.put(w, word);
  }
};

struct unpack_index {
  index_words<std::uint8_t const> from;
  std::uint32_t* indices;
  std::uint64_t n;
  unsigned bits;
  PITH_HD void operator()(std::uint64_t i) const {
    auto const at = i * bits, w = at / 32;
    auto const shift = static_cast<unsigned>(at % 32);
    std::uint64_t const above = shift + bits > 32 ? from.get(w + 1) : 0;
    auto const mask = (std::uint64_t{1} << bits) - 1;
    auto const index = static_cast<std::uint32_t>((from.get(w) | above << 32) >> shift & mask);
    auto const last = static_cast<std::uint32_t>(n - 1);
    indices[i] = index < last ? index : last;
  }
};

struct unpack_indices {
  std::uint8_t const* bytes;
  std::uint32_t* indices;
  std::uint64_t k;
  std::uint64_t n;
  unsigned bits;
  PITH_HD void operator()(std::uint64_t g) const {
    auto* const to = indices + g * octet;
    auto const count = static_cast<std::uint32_t>(octet_size(g, k)), last = static_cast<std::uint32_t>(n - 1);
    unpack(bytes + g * bits, count, bits, to);
    for (std::uint32_t i = 0; i < count; ++i) to[i] = to[i] < last ? to[i] : last;
  }
};

}  // namespace detail

/// An index coder of fixed width: ceil(log2 n) bits per index, least significant bit first.
class packed_indices {
 public:
  std::string name() const { return "packed_indices"; }

  constexpr std::size_t side_bytes(std::uint64_t n, std::uint64_t k) const {
    return static_cast<std::size_t>(k / 8 * width(n) + (k % 8 * width(n) + 7) / 8);
  }

  template <executor E>
  std::size_t scratch_bytes(E const&, std::uint64_t, std::uint64_t) const {
    return 0;
  }

  template <executor E>
  void encode(E const& exec, std::uint64_t n, std::uint64_t k, std::uint32_t* indices, span_on<E, std::byte> side,
              workspace_on<E>&) const {
    auto* const bytes = side_as<std::uint8_t>(side);
    if constexpr (detail::host_executor<E>) {
      exec.for_each_index(detail::octets(k), detail::pack_indices{indices, bytes, k, width(n)});
    } else {
      auto const size = std::uint64_t{side_bytes(n, k)};
      exec.for_each_index((size + 3) / 4, detail::pack_word{indices, {bytes, size}, k, width(n)});
    }
  }
  template <executor E>
  void decode(E const& exec, std::uint64_t n, std::uint64_t k, span_on<E, std::byte const> side, std::uint32_t* indices,
              workspace_on<E>&) const {
    auto const* const bytes = side_as<std::uint8_t>(side);
    if constexpr (detail::host_executor<E>) {
      exec.for_each_index(detail::octets(k), detail::unpack_indices{bytes, indices, k, n, width(n)});
    } else {
      exec.for_each_index(k, detail::unpack_index{{bytes, side_bytes(n, k)}, indices, n, width(n)});
    }
  }

 private:
  static constexpr unsigned width(std::uint64_t n) { return n < 2 ? 0 : static_cast<unsigned>(std::bit_width(n - 1)); }
};

static_assert(detail::index_coder<packed_indices>);

}}  // namespace pith::PITH_ABI
