// tests/emulator/ptx/conversions.cpp — cvt.
#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <utility>

#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"
#include "ptx/rounding.hpp"

namespace emulator {

namespace {

struct half {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

template <class T>
constexpr bool is_narrow = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
template <class T>
constexpr bool is_real = std::is_floating_point_v<T> || is_narrow<T>;

constexpr std::uint16_t narrow_nan = 0x7fff;

// Every value is one of double, except for integers of 64 bits, which do not come here.
double widened(double v) { return v; }
double widened(half v) {
  auto const exponent = v.bits >> 10 & 31, digits = v.bits & 1023;
  auto const size = exponent == 31  ? (digits == 0 ? HUGE_VAL : std::nan(""))
                    : exponent == 0 ? std::ldexp(digits, -24)
                                    : std::ldexp(1024 + digits, exponent - 25);
  return v.bits >> 15 ? -size : size;
}
double widened(bfloat16 v) { return std::bit_cast<float>(std::uint32_t{v.bits} << 16); }

/// What becomes of a value beyond the largest half, by the rounding that is set.
std::uint32_t overflown(bool is_negative) {
  constexpr std::uint32_t largest = 0x7bff, infinite = 0x7c00;
  switch (std::fegetround()) {
    case FE_TOWARDZERO: return largest;
    case FE_UPWARD: return is_negative ? largest : infinite;
    case FE_DOWNWARD: return is_negative ? infinite : largest;
    default: return infinite;
  }
}
half to_half(double v) {
  if (v != v) return {narrow_nan};
  auto const sign = std::signbit(v) ? 0x8000u : 0u;
  if (v == 0 || std::isinf(v)) return {static_cast<std::uint16_t>(sign | (v == 0 ? 0u : 0x7c00u))};
  int exponent = 0;
  static_cast<void>(std::frexp(v, &exponent));
  if (exponent > 16) return {static_cast<std::uint16_t>(sign | overflown(sign != 0))};
  auto const place = std::max(exponent - 1, -14) - 10;  // of the last digit
  auto const digits = static_cast<std::uint32_t>(std::fabs(std::nearbyint(std::ldexp(v, -place))));
  auto const bits = (static_cast<std::uint32_t>(place + 24) << 10) + digits;
  return {static_cast<std::uint16_t>(sign | (bits < 0x7c00 ? bits : overflown(sign != 0)))};
}
/// Of a value of single precision.
bfloat16 to_bfloat16(double v) {
  if (v != v) return {narrow_nan};
  auto const bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
  return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

/// mode: 0 to 3 as in rounding.hpp; 4 more where the result is an integer.
double rounded_to_integer(double v, std::uint8_t mode) {
  switch (mode) {
    case 4: return std::nearbyint(v);
    case 5: return std::trunc(v);
    case 6: return std::floor(v);
    case 7: return std::ceil(v);
    default: return v;
  }
}

template <class To>
To limited(double v) {
  constexpr auto bits = std::numeric_limits<To>::digits;
  if (v >= std::ldexp(1.0, bits)) return std::numeric_limits<To>::max();
  if (v <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
  return static_cast<To>(v);
}

/// NaN is zero, but the highest bit where one of the types has 64 bits.
template <class To, class From>
struct real_to_integer {
  static bool run(thread& t, instruction const& i) {
    auto const v = widened(get<From>(t, i.a));
    constexpr auto is_long = std::is_same_v<From, double> || sizeof(To) == 8;
    constexpr auto of_nan = static_cast<To>(is_long ? std::uint64_t{1} << (8 * sizeof(To) - 1) : 0);
    put(t, i.d, v != v ? of_nan : limited<To>(rounded_to_integer(v, i.mode)));
    return true;
  }
};

/// imm: the nearest value that To has, rather than the lowest bits.
template <class To, class From>
struct integer_to_integer {
  static bool run(thread& t, instruction const& i) {
    auto const v = get<From>(t, i.a);
    using limits = std::numeric_limits<To>;
    auto const clamps = i.imm && !std::in_range<To>(v);
    put(t, i.d, !clamps ? static_cast<To>(v) : v < From{0} ? limits::min() : limits::max());
    return true;
  }
};

template <class To, class From>
struct integer_to_real {
  static bool run(thread& t, instruction const& i) {
    rounding const r(i.mode);
    put(t, i.d, static_cast<To>(get<From>(t, i.a)));
    return true;
  }
};

/// imm: between 0 and 1, and NaN is 0.
template <class To, class From>
struct real_to_real {
  static bool run(thread& t, instruction const& i) {
    rounding const r(i.mode < 4 ? i.mode : 0);
    auto v = rounded_to_integer(widened(get<From>(t, i.a)), i.mode);
    if (i.imm) v = v > 0 ? std::fmin(v, 1.0) : 0.0;
    if constexpr (std::is_same_v<To, half>)
      put_bits(t, i.d, to_half(v).bits);
    else if constexpr (std::is_same_v<To, bfloat16>)
      put_bits(t, i.d, to_bfloat16(v).bits);
    else
      put(t, i.d, static_cast<To>(v));
    return true;
  }
};

template <class To, class From>
handler between(draft const& text) {
  if constexpr (!is_real<To> && !is_real<From>)
    return integer_to_integer<To, From>::run;
  else if constexpr (!is_real<To>)
    return text.has("sat") ? nullptr : real_to_integer<To, From>::run;
  else if constexpr (!is_real<From> && is_narrow<To>)
    return nullptr;
  else if constexpr (!is_real<From>)
    return integer_to_real<To, From>::run;
  else if (is_narrow<To> && text.rounding() != 0)
    return nullptr;
  else if (std::is_same_v<To, bfloat16> && !std::is_same_v<From, float>)
    return nullptr;
  else
    return real_to_real<To, From>::run;
}

/// Calls f with a null pointer to what a type's name means; null where it means nothing here.
template <class F>
handler with_type(std::string const& name, F const& f) {
  auto const is = [&](char const* a, char const* b) { return name == a || name == b; };
  if (is("u8", "b8")) return f(static_cast<std::uint8_t*>(nullptr));
  if (is("s8", "")) return f(static_cast<std::int8_t*>(nullptr));
  if (is("u16", "b16")) return f(static_cast<std::uint16_t*>(nullptr));
  if (is("s16", "")) return f(static_cast<std::int16_t*>(nullptr));
  if (is("u32", "b32")) return f(static_cast<std::uint32_t*>(nullptr));
  if (is("s32", "")) return f(static_cast<std::int32_t*>(nullptr));
  if (is("u64", "b64")) return f(static_cast<std::uint64_t*>(nullptr));
  if (is("s64", "")) return f(static_cast<std::int64_t*>(nullptr));
  if (is("f16", "")) return f(static_cast<half*>(nullptr));
  if (is("bf16", "")) return f(static_cast<bfloat16*>(nullptr));
  if (is("f32", "")) return f(static_cast<float*>(nullptr));
  if (is("f64", "")) return f(static_cast<double*>(nullptr));
  return nullptr;
}

handler select_cvt(draft const& text, instruction& i) {
  if (text.words.size() < 3) return nullptr;
  auto const to_integer = text.has("rni") ? 4 : text.has("rzi") ? 5 : text.has("rmi") ? 6 : text.has("rpi") ? 7 : 0;
  if (to_integer > 0) i.mode = static_cast<std::uint8_t>(to_integer);
  i.imm = text.has("sat");
  return with_type(text.words[text.words.size() - 2], [&]<class To>(To*) {
    return with_type(text.type(), [&]<class From>(From*) { return between<To, From>(text); });
  });
}

}  // namespace

void add_conversions(opcode_table& table) { table["cvt"] = select_cvt; }

}  // namespace emulator
