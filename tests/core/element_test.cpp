// tests/core/element_test.cpp — half and bfloat16: every value, every midpoint, every border.
#include <pith/core/element.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>

namespace {

/// What 16 bits stand for, by the formula of the standard: significand times a power of two.
struct half_format {
  using type = pith::half;
  static constexpr int fraction = 10, most = 31, min_power = -24;
};
struct bfloat16_format {
  using type = pith::bfloat16;
  static constexpr int fraction = 7, most = 255, min_power = -133;
};

template <class Format>
double value_of(std::uint16_t bits) {
  int const below = bits & ((1 << Format::fraction) - 1);
  int const exponent = (bits & 0x7fff) >> Format::fraction;
  double const sign = bits & 0x8000 ? -1 : 1;
  if (exponent == Format::most) return below == 0 ? sign * std::numeric_limits<double>::infinity() : NAN;
  if (exponent == 0) return sign * std::ldexp(below, Format::min_power);
  return sign * std::ldexp(below + (1 << Format::fraction), exponent - 1 + Format::min_power);
}

template <class Format>
typename Format::type from_bits(unsigned bits) {
  typename Format::type x;
  x.bits = static_cast<std::uint16_t>(bits);
  return x;
}

template <class Format>
unsigned bits_of(float value) {
  return typename Format::type(value).bits;
}

float float_of(std::uint32_t bits) { return pith::detail::bits_as<float>(bits); }

template <class Format>
constexpr unsigned infinity_bits = Format::most << Format::fraction;

constexpr float infinite_float = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE_TEMPLATE("all patterns become the float that they stand for and come back", Format, half_format,
                   bfloat16_format) {
  unsigned wrong = 0, lost = 0;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    auto const value = static_cast<float>(from_bits<Format>(bits));
    auto const expected = value_of<Format>(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected)) {
      wrong += !std::isnan(value);
      lost += !std::isnan(static_cast<float>(typename Format::type(value)));
    } else {
      wrong += static_cast<double>(value) != expected || std::signbit(value) != (bits >> 15 != 0);
      lost += bits_of<Format>(value) != bits;
    }
  }
  CHECK(wrong == 0);
  CHECK(lost == 0);
}

TEST_CASE_TEMPLATE("every midpoint between neighbours goes to the even one and its neighbours to their own side",
                   Format, half_format, bfloat16_format) {
  unsigned wrong = 0;
  for (unsigned low = 0; low < infinity_bits<Format>; ++low) {
    auto const high = low + 1;
    // Above the largest finite value the next would have been one unit further.
    auto const here = value_of<Format>(static_cast<std::uint16_t>(low));
    auto const next = high == infinity_bits<Format> ? 2 * here - value_of<Format>(static_cast<std::uint16_t>(low - 1))
                                                    : value_of<Format>(static_cast<std::uint16_t>(high));
    auto const middle = static_cast<float>((here + next) / 2);
    REQUIRE(static_cast<double>(middle) == (here + next) / 2);
    auto const even = low % 2 == 0 ? low : high;
    for (unsigned const sign : {0u, 0x8000u}) {
      float const s = sign == 0 ? 1.0f : -1.0f;
      wrong += bits_of<Format>(s * middle) != (sign | even);
      wrong += bits_of<Format>(s * std::nextafter(middle, 0.0f)) != (sign | low);
      wrong += bits_of<Format>(s * std::nextafter(middle, infinite_float)) != (sign | high);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("floats beyond the range become infinite, and NaN stays NaN", Format, half_format, bfloat16_format) {
  CHECK(bits_of<Format>(infinite_float) == infinity_bits<Format>);
  CHECK(bits_of<Format>(-infinite_float) == (infinity_bits<Format> | 0x8000u));
  CHECK(bits_of<Format>(std::numeric_limits<float>::max()) == infinity_bits<Format>);
  CHECK(bits_of<Format>(0.0f) == 0);
  CHECK(bits_of<Format>(-0.0f) == 0x8000u);
  for (std::uint32_t const bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    CHECK(std::isnan(static_cast<float>(typename Format::type(float_of(bits)))));
  }
}

TEST_CASE("half overflows at 65520 and vanishes at half of its least subnormal") {
  CHECK(bits_of<half_format>(65519.996f) == 0x7bff);
  CHECK(bits_of<half_format>(65520.0f) == 0x7c00);
  CHECK(bits_of<half_format>(65536.0f) == 0x7c00);
  CHECK(bits_of<half_format>(0x1p-25f) == 0);
  CHECK(bits_of<half_format>(std::nextafter(0x1p-25f, 1.0f)) == 1);
  CHECK(bits_of<half_format>(-std::numeric_limits<float>::denorm_min()) == 0x8000u);
}

TEST_CASE("narrow types convert through float") {
  // 1 + 2^-11 + 2^-40 is a float midpoint after its own rounding, which goes to the even half.
  CHECK(pith::element_cast<pith::half>(1 + 0x1p-11 + 0x1p-40).bits == 0x3c00);
  CHECK(pith::element_cast<double>(from_bits<half_format>(0x3c01)) == 1 + 0x1p-10);
  CHECK(pith::element_cast<pith::bfloat16>(from_bits<half_format>(0x3c00)).bits == 0x3f80);
  CHECK(pith::element_cast<float>(0.1) == 0.1f);
}

TEST_CASE("is_finite is true for finite numbers only, and finite_or_nan replaces infinity by NaN") {
  CHECK(pith::is_finite(from_bits<half_format>(0x7bff)));
  CHECK(!pith::is_finite(from_bits<half_format>(0x7c00)));
  CHECK(!pith::is_finite(from_bits<bfloat16_format>(0x7fc0)));
  CHECK(pith::is_finite(std::numeric_limits<float>::max()));
  CHECK(pith::is_finite(-std::numeric_limits<double>::max()));
  CHECK(!pith::is_finite(-infinite_float));
  CHECK(std::isnan(pith::finite_or_nan(infinite_float)));
  CHECK(std::isnan(pith::finite_or_nan(std::numeric_limits<double>::quiet_NaN())));
  CHECK(pith::finite_or_nan(1.5f) == 1.5f);
}

TEST_CASE("the larger one is NaN if either is") {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(pith::larger_or_nan(1.0f, 2.0f) == 2);
  CHECK(pith::larger_or_nan(2.0f, 1.0f) == 2);
  CHECK(std::isnan(pith::larger_or_nan(nan, 1.0f)));
  CHECK(std::isnan(pith::larger_or_nan(1.0f, nan)));
}

TEST_CASE("a scale that is not finite becomes the same NaN on all processors") {
  using limits = std::numeric_limits<float>;
  for (auto const value : {limits::infinity(), -limits::infinity(), -limits::quiet_NaN(), limits::signaling_NaN()})
    CHECK(std::bit_cast<std::uint32_t>(pith::finite_or_nan(value)) == 0x7fc0'0000u);
  CHECK(pith::finite_or_nan(limits::max()) == limits::max());
}

TEST_CASE("sums are kept in double for double and else in float") {
  CHECK(std::is_same_v<pith::accum<double>, double>);
  CHECK(std::is_same_v<pith::accum<float>, float>);
  CHECK(std::is_same_v<pith::accum<pith::half>, float>);
  CHECK(std::is_same_v<pith::accum<pith::bfloat16>, float>);
  CHECK(std::string(pith::element_name<pith::bfloat16>()) == "bfloat16");
}
