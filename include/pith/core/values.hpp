// pith/core/values.hpp — views of packed or plain values, and the encoded output of a stage.
#pragma once

#include <pith/core/span.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

/// The value type of symbols with `Bits` bits each, which are packed from the least significant bit on. Eight symbols
/// fill `Bits` bytes.
template <int Bits>
struct packed {
  static_assert(1 <= Bits && Bits <= 16, "pith: packed<Bits> needs 1 <= Bits <= 16");
};

template <class T>
struct storage {
  using word = T;
  static constexpr std::uint64_t words(std::uint64_t n) { return n; }
};
template <int Bits>
struct storage<packed<Bits>> {
  static_assert(sizeof(packed<Bits>) > 0);
  using word = std::uint8_t;
  static constexpr std::uint64_t words(std::uint64_t n) { return n / 8 * Bits + (n % 8 * Bits + 7) / 8; }
};
template <class T>
struct storage<T const> : storage<T> {
  using word = typename storage<T>::word const;
};

/// A view of `capacity` values in a memory space. The values in [count, capacity) are zero, so that the next stage need
/// not read the count.
template <class T, detail::memory_space Space = host_space>
struct value_view {
  using count_type = std::conditional_t<std::is_const_v<T>, std::uint32_t const, std::uint32_t>;

  typename storage<T>::word* data = nullptr;
  std::uint64_t capacity = 0;   ///< the number of values; the host can read it
  count_type* count = nullptr;  ///< in the memory space; null if all values are used

  template <class U>
    requires(!std::is_const_v<T> && std::same_as<U, T const>)
  constexpr operator value_view<U, Space>() const { return {data, capacity, count}; }
};

/// The number of bytes that `n` values of type `T` occupy.
template <class T>
constexpr std::size_t value_bytes(std::uint64_t n) {
  return static_cast<std::size_t>(storage<T>::words(n)) * sizeof(typename storage<T>::word);
}

/// The output of a stage: values, which the next stage encodes, and side information, which is copied to the payload.
template <class T, detail::memory_space Space = host_space>
struct encoded {
  using byte_type = std::conditional_t<std::is_const_v<T>, std::byte const, std::byte>;

  value_view<T, Space> values;
  span<byte_type, Space> side;

  template <class U>
    requires(!std::is_const_v<T> && std::same_as<U, T const>)
  constexpr operator encoded<U, Space>() const { return {values, side}; }
};

/// The outputs of a stage from `ranks` ranks. All outputs have the same size, and are `stride` bytes apart. `values`
/// and `side` are those of rank 0.
template <class T, detail::memory_space Space = host_space>
struct gathered : encoded<T const, Space> {
  std::size_t stride = 0;
  unsigned ranks = 1;
};

template <class T, class Byte, detail::memory_space Space>
auto side_as(span<Byte, Space> side) {
  using element = std::conditional_t<std::is_const_v<Byte>, T const, T>;
  return reinterpret_cast<element*>(side.data());
}

}}  // namespace pith::PITH_ABI
