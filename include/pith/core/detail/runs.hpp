// pith/core/detail/runs.hpp — runs: neighbouring elements that one thread reads and writes together.
#pragma once

#include <pith/core/detail/pack.hpp>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A run of neighbouring elements: here, all elements of a block. Every run type has these functions:
///
///   count()        the number of elements
///   read(p)        an object whose [i] is p[i]: p itself, or a copy in registers
///   write(p, f)    p[i] = f(i)
///
/// Runs of at most one octet (8 elements) also have these functions:
///
///   pack<Bits>(symbols, bytes), unpack<Bits>(bytes, symbols)
template <class Count>
struct block_run {
  Count size;

  PITH_HD Count count() const { return size; }
  template <class T>
  PITH_HD T const* read(T const* p) const {
    return p;
  }
  template <class T, class F>
  PITH_HD void write(T* p, F const& f) const {
    for (std::uint32_t i = 0; i < size; ++i) p[i] = f(i);
  }
};

/// The largest power of two that divides `bytes`, but at most 16. Runs use accesses of at most 16 bytes.
PITH_HD constexpr std::size_t best_alignment(std::size_t bytes) {
  auto const even = bytes & (~bytes + 1);
  return even < 16 ? even : 16;
}

/// True if the octets that start at p are aligned for vector access. An octet is eight values, or `Bytes` bytes of
/// packed symbols. For double, the result is always false, because a thread has too few registers for three octets of
/// doubles.
template <class T>
PITH_HD inline bool is_vector_aligned(T const* p) {
  return sizeof(T) < sizeof(double) && reinterpret_cast<std::uintptr_t>(p) % best_alignment(octet * sizeof(T)) == 0;
}
template <std::size_t Bytes>
PITH_HD inline bool lie_well_packed(std::uint8_t const* p) {
  return reinterpret_cast<std::uintptr_t>(p) % best_alignment(Bytes) == 0;
}

/// A run of one octet that is aligned for vector access. One device thread processes such an octet.
struct aligned_octet {
  template <class T>
  struct alignas(best_alignment(octet * sizeof(T))) values {
    PITH_HD T operator[](std::uint32_t i) const { return of[i]; }
    T of[octet];
  };

  PITH_HD static constexpr std::uint32_t count() { return octet; }
  template <class T>
  PITH_HD static values<T> read(T const* p) {
    return *reinterpret_cast<values<T> const*>(p);
  }
  template <class T, class F>
  PITH_HD static void write(T* p, F const& f) {
    values<T> to;
    for (std::uint32_t i = 0; i < octet; ++i) to.of[i] = f(i);
    *reinterpret_cast<values<T>*>(p) = to;
  }

  template <unsigned Bits>
  PITH_HD static void pack(symbol_word<Bits> const* symbols, std::uint8_t* bytes) {
    if constexpr (is_word<Bits>) {
      *reinterpret_cast<packed_word<Bits>*>(bytes) = packed_octet<Bits>(symbols);
    } else if constexpr (Bits == 16) {
      write(reinterpret_cast<std::uint16_t*>(bytes), [&](std::uint32_t i) { return symbols[i]; });
    } else {
      pack_octet<Bits>(symbols, octet, bytes);
    }
  }
  template <unsigned Bits>
  PITH_HD static void unpack(std::uint8_t const* bytes, symbol_word<Bits>* symbols) {
    if constexpr (is_word<Bits>) {
      unpacked_octet<Bits>(*reinterpret_cast<packed_word<Bits> const*>(bytes), symbols);
    } else if constexpr (Bits == 16) {
      auto const words = read(reinterpret_cast<std::uint16_t const*>(bytes));
      for (std::uint32_t i = 0; i < octet; ++i) symbols[i] = words[i];
    } else {
      unpack_octet<Bits>(bytes, octet, symbols);
    }
  }

 private:
  template <unsigned Bits>
  static constexpr bool is_word = sizeof(packed_word<Bits>) == Bits;
};

/// A run of at most one octet, at any alignment. Loops over the run have constant bounds, so that a thread's values
/// stay in registers.
struct loose_octet {
  std::uint32_t size;

  PITH_HD std::uint32_t count() const { return size; }
  template <class T>
  PITH_HD T const* read(T const* p) const {
    return p;
  }
  template <class T, class F>
  PITH_HD void write(T* p, F const& f) const {
    for (std::uint32_t i = 0; i < octet; ++i) {
      if (i < size) p[i] = f(i);
    }
  }

  template <unsigned Bits>
  PITH_HD void pack(symbol_word<Bits> const* symbols, std::uint8_t* bytes) const {
    pack_octet<Bits>(symbols, size, bytes);
  }
  template <unsigned Bits>
  PITH_HD void unpack(std::uint8_t const* bytes, symbol_word<Bits>* symbols) const {
    unpack_octet<Bits>(bytes, size, symbols);
  }
};

}}}  // namespace pith::PITH_ABI::detail
