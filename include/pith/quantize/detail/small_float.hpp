// pith/quantize/detail/small_float.hpp — floating-point numbers of four to eight bits.
#pragma once

#include <pith/core/element.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Returns 2^k as an A. For float, k must be in [-149, 127].
template <class A>
PITH_HD inline A power_of_two(int k) {
  return static_cast<A>(bits_as<double>(static_cast<std::uint64_t>(k + 1023) << 52));
}

/// A format of magnitudes: exponent bits, then mantissa bits. The code c has the exponent field c >> mantissa_bits. If
/// this field is 0, the number is c times the least subnormal number, 2^(min_exponent - mantissa_bits). Codes above
/// `max_code` are NaN.
struct small_float {
  int mantissa_bits;
  int min_exponent;        ///< the exponent of the least normal number
  int max_exponent;        ///< the exponent of the largest number
  std::uint32_t max_code;  ///< the code of the largest number

  /// Returns the code of the number nearest to v, where ties go to even codes. Requires 0 <= v < 2^(max_exponent + 1).
  /// As in half_bits (core/element.hpp), a minimum and a maximum select the valid result without a branch.
  template <class A>
  PITH_HD std::uint32_t code(A v) const {
    using word = std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>;
    auto const spare = digits<A> - mantissa_bits;
    auto const bits = bits_as<word>(v);
    // One unit in the last place of `rounding` is the least subnormal number.
    auto const rounding = power_of_two<A>(min_exponent + spare);
    auto const subnormal = bits_as<word>(v + rounding) - bits_as<word>(rounding);
    auto const below = bits_as<word>(power_of_two<A>(min_exponent - 1));  // the number whose exponent field would be 0
    auto const normal = (bits - below + (word{1} << (spare - 1)) - 1 + ((bits >> spare) & 1)) >> spare;
    auto const least_normal = word{1} << mantissa_bits;
    auto const small = subnormal < least_normal ? subnormal : least_normal;
    auto const nearest = normal < small ? small : normal;
    auto const most = static_cast<word>(max_code);
    return static_cast<std::uint32_t>(nearest < most ? nearest : most);
  }

  /// Returns the number with this code.
  template <class A>
  PITH_HD A value(std::uint32_t code) const {
    using word = bits_of<A>;
    auto const fraction = static_cast<word>(code) << (digits<A> - mantissa_bits);
    auto const least_normal = power_of_two<A>(min_exponent);
    auto const subnormal = bits_as<A>(fraction + bits_as<word>(least_normal)) - least_normal;
    auto const normal = bits_as<A>(fraction + bits_as<word>(power_of_two<A>(min_exponent - 1)));
    auto const number = subnormal < normal ? subnormal : normal;
    return code <= max_code ? number : written_nan<A>;
  }

 private:
  template <class A>
  static constexpr int digits = sizeof(A) == 8 ? 52 : 23;
};

// The formats are functions, because device code cannot call member functions of constants.
PITH_HD constexpr small_float e2m1() { return {1, 0, 2, 7}; }
PITH_HD constexpr small_float e2m3() { return {3, 0, 2, 31}; }
PITH_HD constexpr small_float e3m2() { return {2, -2, 4, 31}; }
PITH_HD constexpr small_float e4m3() { return {3, -6, 8, 0x7e}; }
PITH_HD constexpr small_float e5m2() { return {2, -14, 15, 0x7b}; }

}}}  // namespace pith::PITH_ABI::detail
