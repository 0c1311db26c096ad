// tests/fuzz/edit.hpp — what an input does to bytes that were right, word by word.
#pragma once

#include "input.hpp"

#include <bit>
#include <iterator>
#include <limits>

namespace fuzz {

/// Numbers that code may not expect.
inline std::uint64_t odd_word(input& from) {
  using limits = std::numeric_limits<double>;
  static constexpr double numbers[] = {0,
                                       -0.0,
                                       1,
                                       -1,
                                       0.5,
                                       0.25,
                                       0.1,
                                       1e-3,
                                       1e9,
                                       1e19,
                                       1e77,
                                       1e154,
                                       -1e300,
                                       limits::max(),
                                       1e-12,
                                       1e-308,
                                       2,
                                       64,
                                       1e38,
                                       -1e38,
                                       limits::denorm_min(),
                                       limits::infinity(),
                                       -limits::infinity(),
                                       limits::quiet_NaN()};
  static constexpr std::uint64_t words[] = {1,          2,          3,          0xff,       0xffff, 1ull << 31,
                                            0xffffffff, 1ull << 32, 1ull << 61, 1ull << 63, ~0ull};
  auto const i = from.take_below(std::size(numbers) + std::size(words));
  return i < std::size(numbers) ? std::bit_cast<std::uint64_t>(numbers[i]) : words[i - std::size(numbers)];
}
inline std::uint32_t odd_half_word(input& from) {
  auto const word = odd_word(from);
  return from.take_byte() % 2 == 0 ? std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(word)))
                                   : static_cast<std::uint32_t>(word);
}

/// Writes as much of a value as there is room for, at a multiple of its size.
template <class T>
void put_at(pith::span<std::byte> bytes, std::size_t at, T value) {
  at -= at % sizeof value;
  std::memcpy(bytes.data() + at, &value, std::min(sizeof value, bytes.size() - at));
}

/// One change of bytes that stay as many.
inline void edit(pith::span<std::byte> bytes, input& from) {
  auto const how = from.take_byte() % 6;
  if (bytes.size() == 0) return;
  auto const at = from.take_below(bytes.size());
  switch (how) {
    case 0: bytes.data()[at] ^= static_cast<std::byte>(from.take_byte()); break;
    case 1: put_at(bytes, at, odd_word(from)); break;
    case 2: put_at(bytes, at, odd_half_word(from)); break;
    case 3: put_at(bytes, at, from.take<std::uint64_t>()); break;
    case 4: put_at(bytes, at, std::uint64_t{from.take_byte()}); break;
    default: std::swap(bytes.data()[at], bytes.data()[from.take_below(bytes.size())]);
  }
}

/// One change, after which they may be more or fewer.
inline void resize_or_edit(std::vector<std::byte>& bytes, input& from) {
  constexpr std::size_t most = 1 << 16;
  auto const how = from.take_byte() % 4;
  if (how > 1) return edit(pith::span<std::byte>(bytes), from);
  auto const first = bytes.empty() ? 0 : from.take_below(bytes.size()) / 4 * 4;
  auto const count = std::min<std::size_t>(4 * (from.take_byte() + 1u), bytes.size() - first);
  auto const begin = bytes.begin() + static_cast<std::ptrdiff_t>(first),
             end = begin + static_cast<std::ptrdiff_t>(count);
  if (how == 0) {
    bytes.erase(begin, end);
  } else if (bytes.size() < most) {
    auto const copy = std::vector(begin, end);
    bytes.insert(end, copy.begin(), copy.end());
  }
}

}  // namespace fuzz
