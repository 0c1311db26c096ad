// pith/core/detail/runs.hpp — the neighbours that a thread treats together, and how it reads and writes them.
#pragma once

#include <pith/core/detail/pack.hpp>

#include <cstddef>
#include <cstdint>

namespace pith::inline v0::detail {

/// Neighbours, all of a block's on a host.
///
///   count()        how many they are
///   read(p)        what [i] gives value i of: p, or a copy in registers
///   write(p, f)    p[i] = f(i)
///
/// and of a group
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

/// How so many bytes may lie at best: 16 are the most that a device moves at a time.
PITH_HD constexpr std::size_t best_alignment(std::size_t bytes) {
  auto const even = bytes & (~bytes + 1);
  return even < 16 ? even : 16;
}

/// Whether groups of such values, or groups that are packed in so many bytes, lie so from p on. Doubles never do: a
/// thread has no registers for three groups of them.
template <class T>
PITH_HD inline bool is_vector_aligned(T const* p) {
  return sizeof(T) < sizeof(double) && reinterpret_cast<std::uintptr_t>(p) % best_alignment(group * sizeof(T)) == 0;
}
template <std::size_t Bytes>
PITH_HD inline bool lie_well_packed(std::uint8_t const* p) {
  return reinterpret_cast<std::uintptr_t>(p) % best_alignment(Bytes) == 0;
}

/// A group that lies well, by a thread of a device.
struct aligned_group {
  template <class T>
  struct alignas(best_alignment(group * sizeof(T))) values {
    PITH_HD T operator[](std::uint32_t i) const { return of[i]; }
    T of[group];
  };

  PITH_HD static constexpr std::uint32_t count() { return group; }
  template <class T>
  PITH_HD static values<T> read(T const* p) {
    return *reinterpret_cast<values<T> const*>(p);
  }
  template <class T, class F>
  PITH_HD static void write(T* p, F const& f) {
    values<T> to;
    for (std::uint32_t i = 0; i < group; ++i) to.of[i] = f(i);
    *reinterpret_cast<values<T>*>(p) = to;
  }

  template <unsigned Bits>
  PITH_HD static void pack(symbol_word<Bits> const* symbols, std::uint8_t* bytes) {
    if constexpr (is_word<Bits>) {
      *reinterpret_cast<packed_word<Bits>*>(bytes) = packed_group<Bits>(symbols);
    } else {
      pack_group<Bits>(symbols, group, bytes);
    }
  }
  template <unsigned Bits>
  PITH_HD static void unpack(std::uint8_t const* bytes, symbol_word<Bits>* symbols) {
    if constexpr (is_word<Bits>) {
      unpacked_group<Bits>(*reinterpret_cast<packed_word<Bits> const*>(bytes), symbols);
    } else {
      unpack_group<Bits>(bytes, group, symbols);
    }
  }

 private:
  template <unsigned Bits>
  static constexpr bool is_word = sizeof(packed_word<Bits>) == Bits;
};

/// One that lies anywhere, or a part of one. Loops have indices that a compiler knows, so that a thread's values are in
/// registers.
struct loose_group {
  std::uint32_t size;

  PITH_HD std::uint32_t count() const { return size; }
  template <class T>
  PITH_HD T const* read(T const* p) const {
    return p;
  }
  template <class T, class F>
  PITH_HD void write(T* p, F const& f) const {
    for (std::uint32_t i = 0; i < group; ++i) {
      if (i < size) p[i] = f(i);
    }
  }

  template <unsigned Bits>
  PITH_HD void pack(symbol_word<Bits> const* symbols, std::uint8_t* bytes) const {
    pack_group<Bits>(symbols, size, bytes);
  }
  template <unsigned Bits>
  PITH_HD void unpack(std::uint8_t const* bytes, symbol_word<Bits>* symbols) const {
    unpack_group<Bits>(bytes, size, symbols);
  }
};

}  // namespace pith::inline v0::detail
