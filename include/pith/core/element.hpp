// pith/core/element.hpp — the element types of a gradient: float, double, half, bfloat16.
#pragma once

#include <pith/config.hpp>

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// Equivalent to std::bit_cast. In device code, std::bit_cast would need a compiler flag.
template <class To, class From>
PITH_HD inline To bits_as(From const& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

PITH_HD inline std::int32_t least(std::int32_t a, std::int32_t b) { return a < b ? a : b; }
PITH_HD inline std::int32_t most(std::int32_t a, std::int32_t b) { return a < b ? b : a; }

/// Converts float to half precision. Normal results are rounded with integer arithmetic. Adding 0.5f rounds subnormal
/// results, because 0.5f has the same unit in the last place as the subnormal numbers of half precision. A minimum and
/// a maximum then select the valid result without a branch, so that loops vectorise.
PITH_HD inline std::uint16_t half_bits(float value) {
  auto const bits = bits_as<std::int32_t>(value);
  auto const magnitude = bits & 0x7fffffff;
  auto const subnormal = bits_as<std::int32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000;
  auto const normal = (least(magnitude, 0x47800000) - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  auto const nan = ((0x7f800000 - magnitude) >> 31) & 0x7e00;
  return static_cast<std::uint16_t>(((bits >> 16) & 0x8000) | most(most(normal, nan), least(subnormal, 0x400)));
}

PITH_HD inline float half_value(std::uint16_t bits) {
  auto const sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  auto const magnitude = (bits & 0x7fff) << 13;
  auto const subnormal = bits_as<std::int32_t>(bits_as<float>(magnitude + 0x38800000) - 0x1p-14f);
  auto const special = magnitude < 0x0f800000 ? 0 : 0x38000000;
  return bits_as<float>(sign | static_cast<std::uint32_t>(least(subnormal, magnitude + 0x38000000) + special));
}

PITH_HD inline std::uint16_t bfloat16_bits(float value) {
  auto const bits = bits_as<std::uint32_t>(value);
  auto const nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  auto const quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : nearest);
}

}  // namespace detail

/// IEEE 754 binary16, with the layout of CUDA's __half. Conversions round to nearest, ties to even.
struct half {
  half() = default;
  PITH_HD explicit half(float value) : bits(detail::half_bits(value)) {}
  PITH_HD explicit operator float() const { return detail::half_value(bits); }

  std::uint16_t bits;
};

/// bfloat16: the upper 16 bits of a binary32, with the layout of CUDA's __nv_bfloat16. Conversions round to nearest,
/// ties to even.
struct bfloat16 {
  bfloat16() = default;
  PITH_HD explicit bfloat16(float value) : bits(detail::bfloat16_bits(value)) {}
  PITH_HD explicit operator float() const { return detail::bits_as<float>(static_cast<std::uint32_t>(bits) << 16); }

  std::uint16_t bits;
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);
static_assert(std::is_trivially_copyable_v<half> && std::is_trivially_copyable_v<bfloat16>);

/// The types that elements of a gradient may have.
template <class T>
concept real = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, half> || std::same_as<T, bfloat16>;

/// The type of sums, residuals and scales for elements of type `T`: double for double, else float.
template <class T>
using accum = std::conditional_t<std::same_as<T, double>, double, float>;

/// Converts between element types. Conversions from and to half and bfloat16 use float as an intermediate type.
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

/// True if `value` is neither NaN nor infinite. In device code, std::isfinite would need a compiler flag.
template <real T>
PITH_HD inline bool is_finite(T value) {
  auto const wide = element_cast<accum<T>>(value);
  return wide - wide == 0;
}

namespace detail {

template <class A>
using bits_of = std::conditional_t<sizeof(A) == 8, std::uint64_t, std::uint32_t>;

/// The NaN that encoders write to payloads. Encoders write no computed NaN, whose bit pattern would depend on the
/// processor. `written_nan` is a constant, so that device code can use it.
template <std::floating_point A>
inline constexpr A written_nan = std::numeric_limits<A>::quiet_NaN();

/// |x| and the sign bit of x, without a branch, so that loops vectorise.
template <std::floating_point A>
PITH_HD inline A magnitude(A x) {
  return bits_as<A>(bits_as<bits_of<A>>(x) << 1 >> 1);
}
template <std::floating_point A>
PITH_HD inline std::int32_t sign_bit(A x) {
  return static_cast<std::int32_t>(bits_as<bits_of<A>>(x) >> (8 * sizeof(A) - 1));
}
/// Returns min(x, most) for x >= 0 and most >= 0. Returns `most` if x is NaN.
template <std::floating_point A>
PITH_HD inline A at_most(A x, A most) {
  auto const a = bits_as<bits_of<A>>(x), b = bits_as<bits_of<A>>(most);
  return bits_as<A>(a < b ? a : b);
}

}  // namespace detail

/// Returns x rounded to an integer and clamped to [-most, most], where most < 2^31. Rounds |x| + 1/2, computed as an A,
/// down. So the result differs from x by at most 1/2 and the rounding error of this sum. If x is NaN, returns some
/// integer in [-most, most]. The function has no branch, so that loops vectorise.
template <std::floating_point A>
PITH_HD inline std::int32_t nearest_integer(A x, A most) {
  auto const size = static_cast<std::int32_t>(detail::at_most(detail::magnitude(x), most) + A{0.5f});
  auto const sign = -detail::sign_bit(x);
  return (size ^ sign) - sign;
}

/// Returns max(a, b), or NaN if a or b is NaN. The code has two conditional expressions, because g++ would compile one
/// expression with two conditions to jumps.
template <std::floating_point A>
PITH_HD constexpr A larger_or_nan(A a, A b) {
  auto const most = a > b ? a : b;
  return a != a ? a : most;
}

/// Returns the scale `value` of a bucket if this value is finite, and NaN otherwise. Decoding a bucket with the scale
/// NaN gives NaN. A bucket with an infinite scale could not be decoded.
template <class A>
PITH_HD inline A finite_or_nan(A value) {
  return is_finite(value) ? value : A{detail::written_nan<A>};
}

/// The largest finite value of an element type.
template <real T>
inline constexpr accum<T> largest_finite = std::same_as<T, half>       ? accum<T>{65504}
                                           : std::same_as<T, bfloat16> ? accum<T>{0x1.fep127f}
                                                                       : std::numeric_limits<accum<T>>::max();

/// Converts a value to `T`. If T has 16 bits, a finite value of a larger magnitude than `most` becomes `most` with its
/// sign. By default, `most` is the largest finite value of T. Compares bit patterns, so that loops vectorise.
template <real T, std::floating_point V>
PITH_HD inline T saturated_cast(V value, std::type_identity_t<V> most = largest_finite<T>) {
  if constexpr (sizeof(T) > 2) return element_cast<T>(value);
  using bits = detail::bits_of<V>;
  constexpr auto any = static_cast<bits>(-1) >> 1;
  V const largest = largest_finite<V>;
  auto const all = detail::bits_as<bits>(value), size = all & any;
  auto const limit = size <= detail::bits_as<bits>(largest) ? detail::bits_as<bits>(most) : any;
  return element_cast<T>(detail::bits_as<V>((size < limit ? size : limit) | (all & ~any)));
}

/// Rounds a sum or product to T. If T has 16 bits and the operands are finite, the result is finite, even if `result` is
/// infinite.
template <real T, std::floating_point V>
PITH_HD inline T saturated_result(V result, [[maybe_unused]] bool is_of_finite) {
  if constexpr (sizeof(T) == 2) {
    if (is_of_finite && !is_finite(result)) return element_cast<T>(result > 0 ? largest_finite<T> : -largest_finite<T>);
  }
  return saturated_cast<T>(result);
}

namespace detail {

/// Returns x, but the largest finite number with the sign of x if x is infinite.
template <std::floating_point A>
PITH_HD inline A bounded(A x) {
  return x > largest_finite<A> ? largest_finite<A> : x < -largest_finite<A> ? -largest_finite<A> : x;
}
/// Returns factor * x for a finite factor. If x is finite, the result is finite. Compares bit patterns, so that loops
/// vectorise.
template <std::floating_point A>
PITH_HD inline A bounded_product(A factor, A x) {
  constexpr auto any = static_cast<bits_of<A>>(-1) >> 1;
  auto const product = bits_as<bits_of<A>>(factor * x), size = product & any;
  A const largest = largest_finite<A>;
  auto const most = bits_as<bits_of<A>>(largest);
  auto const limit = (bits_as<bits_of<A>>(x) & any) > most ? any : most;
  return bits_as<A>((size < limit ? size : limit) | (product & ~any));
}

}  // namespace detail

/// The name of an element type in digests and messages.
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

}}  // namespace pith::PITH_ABI
