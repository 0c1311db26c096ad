// pith/core/element.hpp — the types of a gradient's elements: float, double, half, bfloat16.
#pragma once

#include <pith/config.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace pith::inline v0 {

namespace detail {

/// std::bit_cast needs a compiler flag in device code.
template <class To, class From>
PITH_HD inline To bits_as(From const& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

/// Drops the low `shift` bits of `v`, rounding to nearest, ties to even.
PITH_HD constexpr std::uint32_t round_off(std::uint32_t v, unsigned shift) {
  auto const half_unit = 1u << (shift - 1);
  auto const odd = (v >> shift) & 1u;
  return (v + half_unit - 1 + odd) >> shift;
}

PITH_HD inline std::uint16_t half_bits(float value) {
  auto const bits = bits_as<std::uint32_t>(value);
  auto const sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  auto const magnitude = bits & 0x7fffffffu;
  auto const signed_as = [sign](std::uint32_t m) { return static_cast<std::uint16_t>(sign | m); };
  if (magnitude > 0x7f800000u) return signed_as(0x7e00u);   // NaN
  if (magnitude >= 0x47800000u) return signed_as(0x7c00u);  // 65536 and above
  if (magnitude >= 0x38800000u) return signed_as(round_off(magnitude - 0x38000000u, 13));
  if (magnitude < 0x33000000u) return signed_as(0);  // below half of the least subnormal
  auto const exponent = magnitude >> 23;
  return signed_as(round_off((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent));
}

PITH_HD inline float half_value(std::uint16_t bits) {
  auto const sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  auto const exponent = static_cast<std::uint32_t>(bits >> 10) & 0x1fu;
  auto const mantissa = static_cast<std::uint32_t>(bits) & 0x3ffu;
  if (exponent == 31) return bits_as<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return bits_as<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  auto const subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return bits_as<float>(sign | bits_as<std::uint32_t>(subnormal));
}

PITH_HD inline std::uint16_t bfloat16_bits(float value) {
  auto const bits = bits_as<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // a quiet NaN
  return static_cast<std::uint16_t>(round_off(bits, 16));
}

}  // namespace detail

/// IEEE 754 binary16, as bits: the layout of CUDA's __half. Conversions round to nearest, ties to even.
struct half {
  half() = default;
  PITH_HD explicit half(float value) : bits(detail::half_bits(value)) {}
  PITH_HD explicit operator float() const { return detail::half_value(bits); }

  std::uint16_t bits;
};

/// The upper half of a binary32, as bits: the layout of CUDA's __nv_bfloat16. Rounds to nearest, ties to even.
struct bfloat16 {
  bfloat16() = default;
  PITH_HD explicit bfloat16(float value) : bits(detail::bfloat16_bits(value)) {}
  PITH_HD explicit operator float() const { return detail::bits_as<float>(static_cast<std::uint32_t>(bits) << 16); }

  std::uint16_t bits;
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);
static_assert(std::is_trivially_copyable_v<half> && std::is_trivially_copyable_v<bfloat16>);

/// The element types of a gradient.
template <class T>
concept real = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, half> || std::same_as<T, bfloat16>;

namespace detail {

template <class T>
struct wide {
  using type = float;
};
template <>
struct wide<double> {
  using type = double;
};

}  // namespace detail

/// What sums, residuals and scales of `T` are kept in: double for double, else float.
template <class T>
using accum = typename detail::wide<T>::type;

/// Converts between element types, narrow ones through float.
template <class To, class From>
PITH_HD inline To element_cast(From value) {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (std::floating_point<To> && std::floating_point<From>) {
    return static_cast<To>(value);
  } else if constexpr (std::floating_point<To>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return To(static_cast<float>(value));
  }
}

/// Neither NaN nor infinite; std::isfinite needs a compiler flag in device code.
template <real T>
PITH_HD inline bool is_finite(T value) {
  auto const wide = element_cast<accum<T>>(value);
  return wide - wide == 0;
}

/// A scale that is infinite says nothing about its bucket: such a bucket is NaN as a whole.
template <class A>
PITH_HD inline A finite_or_nan(A value) {
  return is_finite(value) ? value : value - value;
}

/// The name of an element type, as it stands in digests and messages.
template <real T>
constexpr char const* element_name() {
  if constexpr (std::same_as<T, float>) {
    return "float";
  } else if constexpr (std::same_as<T, double>) {
    return "double";
  } else if constexpr (std::same_as<T, half>) {
    return "half";
  } else {
    return "bfloat16";
  }
}

}  // namespace pith::inline v0
