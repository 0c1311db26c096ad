// tests/wire/scalar_numbers.hpp — elements, fields of bits and random words as docs/wire_format.md has them, naively.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace scalar {

using bytes = std::vector<unsigned char>;

/// A little-endian number of `size` bytes.
inline std::uint64_t number(bytes const& from, std::size_t at, unsigned size) {
  std::uint64_t v = 0;
  for (unsigned i = 0; i < size; ++i) v += static_cast<std::uint64_t>(from.at(at + i)) << (8 * i);
  return v;
}

/// Elements: 1 float, 2 double, 3 half, 4 bfloat16; and 5, the exponent of a scale, in a byte. A value is held as a
/// double, which all of them are.
inline unsigned size_of(int kind) { return kind == 1 ? 4 : kind == 2 ? 8 : kind == 5 ? 1 : 2; }

/// |value| in units of the last place of a format of so many digits and so small an exponent, ties to even.
inline double nearest(double value, int digits, int least, double overflow) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  auto const unit = std::ldexp(1.0, std::max(exponent - digits, least));
  auto const r = std::nearbyint(value / unit) * unit;
  return std::abs(r) >= overflow ? std::copysign(INFINITY, r) : r;
}
inline double rounded(int kind, double v) {
  if (kind == 1) return static_cast<double>(static_cast<float>(v));
  if (kind == 3) return nearest(v, 11, -24, 65536);
  if (kind == 4) return nearest(v, 8, -133, 0x1p128);
  return v;
}

/// An element: a number beyond the largest half or bfloat16 becomes the largest, with its sign.
inline double saturated(int kind, double v) {
  auto const near = rounded(kind, v);
  if (kind < 3 || std::isfinite(near) || !std::isfinite(v)) return near;
  return std::copysign(kind == 3 ? 65504 : 0x1.fep127, v);
}

/// The fields of sign, exponent and fraction of half and bfloat16.
inline double from_fields(std::uint64_t v, int exponent_bits, int fraction_bits) {
  auto const fraction = static_cast<double>(v & ((1u << fraction_bits) - 1));
  auto const exponent = static_cast<int>(v >> fraction_bits & ((1u << exponent_bits) - 1));
  auto const bias = (1 << (exponent_bits - 1)) - 1;
  auto const sign = v >> (exponent_bits + fraction_bits) & 1 ? -1.0 : 1.0;
  if (exponent == 2 * bias + 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}
inline double element(int kind, bytes const& from, std::size_t at) {
  auto const v = number(from, at, size_of(kind));
  if (kind == 3) return from_fields(v, 5, 10);
  if (kind == 4) return from_fields(v, 8, 7);
  if (kind == 5) return v == 255 ? NAN : std::ldexp(1.0, static_cast<int>(v) - 127);
  if (kind == 1) {
    auto const low = static_cast<std::uint32_t>(v);
    float f;
    return std::memcpy(&f, &low, 4), static_cast<double>(f);
  }
  double d;
  return std::memcpy(&d, &v, 8), d;
}
inline std::vector<double> elements(int kind, bytes const& from, std::size_t at, std::uint64_t n) {
  auto x = std::vector<double>();
  for (std::uint64_t i = 0; i < n; ++i) x.push_back(element(kind, from, at + i * size_of(kind)));
  return x;
}

/// The `bits` bits at bit `first`, the least significant one first.
inline std::uint64_t field(bytes const& from, std::size_t at, std::uint64_t first, unsigned bits) {
  std::uint64_t v = 0;
  for (unsigned b = 0; b < bits; ++b) {
    auto const place = first + b;
    v += static_cast<std::uint64_t>(from.at(at + place / 8) >> (place % 8) & 1) << b;
  }
  return v;
}

/// The number of a code of `mantissa` lower bits and an exponent above, or NaN above the code `largest`.
inline double small_float(std::uint64_t code, int mantissa, int bias, std::uint64_t largest) {
  auto const exponent = static_cast<int>(code >> mantissa);
  auto const fraction = static_cast<double>(code & ((1u << mantissa) - 1));
  if (code > largest) return NAN;
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - mantissa);
  return std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
}

/// Point `code` of eight_bit's 128, which ascend from 0 to 1.
inline double point(std::uint64_t code) {
  if (code == 0 || code == 127) return code == 0 ? 0 : 1;
  int decade = 0;
  while (code >= (4u << decade) - 1) ++decade;
  auto const h = 1u << decade;
  auto const lower = code < 3 * h - 1;
  auto const place = (static_cast<double>(code - (lower ? 2 * h - 1 : 3 * h - 1)) + 0.5) / h;
  return rounded(1, std::stod("1e" + std::to_string(decade - 6)) * (lower ? 1 + 3.5 * place : 4.5 + 5.5 * place));
}

/// Whose random numbers they are: a rank of a tensor in a step, and its stage.
struct drawer {
  std::uint64_t seed, tensor, step, rank, stage;
  int rounds;
};

/// The rank of what all ranks draw alike.
inline constexpr std::uint64_t all_ranks = 0xffff;

/// Word `i` of the random numbers: Philox4x32.
inline std::uint32_t random_word(drawer const& of, std::uint64_t i) {
  std::uint64_t c[4] = {i / 4 & 0xffffffff, i / 4 >> 32 | of.tensor << 8, of.step & 0xffffffff,
                        of.step >> 32 | of.rank << 8 | of.stage << 27};
  std::uint64_t k[2] = {of.seed & 0xffffffff, of.seed >> 32};
  for (int round = 0; round < of.rounds; ++round) {
    auto const a = 0xD2511F53 * c[0], b = 0xCD9E8D57 * c[2];
    std::uint64_t const next[4] = {b >> 32 ^ c[1] ^ k[0], b & 0xffffffff, a >> 32 ^ c[3] ^ k[1], a & 0xffffffff};
    std::copy(next, next + 4, c);
    k[0] = (k[0] + 0x9E3779B9) & 0xffffffff;
    k[1] = (k[1] + 0xBB67AE85) & 0xffffffff;
  }
  return static_cast<std::uint32_t>(c[i % 4]);
}

}  // namespace scalar
