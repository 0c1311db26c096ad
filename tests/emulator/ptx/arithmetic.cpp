// tests/emulator/ptx/arithmetic.cpp — add, sub, mul, mad, sad, fma, div, rem, min, max, neg, abs and functions.
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"
#include "ptx/rounding.hpp"

namespace emulator {

namespace {

template <class T>
constexpr bool is_real = std::is_floating_point_v<T>;

__extension__ using wide_signed = __int128;
__extension__ using wide_unsigned = unsigned __int128;
template <class T, class Signed, class Unsigned>
using by_sign = std::conditional_t<std::is_signed_v<T>, Signed, Unsigned>;
/// Twice as wide.
template <class T>
using wide_t = std::conditional_t<sizeof(T) == 2, by_sign<T, std::int32_t, std::uint32_t>,
                                  std::conditional_t<sizeof(T) == 4, by_sign<T, std::int64_t, std::uint64_t>,
                                                     by_sign<T, wide_signed, wide_unsigned>>>;

// Integers wrap around.
template <class T>
using wrapping = std::conditional_t<is_real<T>, T, std::uint64_t>;
template <class T>
T sum(T a, T b) {
  return static_cast<T>(wrapping<T>(a) + wrapping<T>(b));
}
template <class T>
T difference(T a, T b) {
  return static_cast<T>(wrapping<T>(a) - wrapping<T>(b));
}
template <class T>
T product(T a, T b) {
  return static_cast<T>(wrapping<T>(a) * wrapping<T>(b));
}
template <class T>
T negative(T a) {
  if constexpr (is_real<T>) return -a;
  return difference<T>(0, a);
}
template <class T>
T magnitude(T a) {
  if constexpr (is_real<T>) return std::fabs(a);
  return a < T{0} ? negative(a) : a;
}

/// Integers: all ones where the divisor is zero.
template <class T>
T quotient(T a, T b) {
  if constexpr (is_real<T>) return a / b;
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return negative(a);
  return static_cast<T>(a / b);
}
template <class T>
T remainder_of(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}

/// The number, where one operand is NaN; -0 is less than 0.
template <class T>
T least(T a, T b) {
  if constexpr (is_real<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}
template <class T>
T most(T a, T b) {
  if constexpr (is_real<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <class T>
T high_product(T a, T b) {
  return static_cast<T>(static_cast<wide_t<T>>(a) * static_cast<wide_t<T>>(b) >> (8 * sizeof(T)));
}
template <class T>
T product_plus(T a, T b, T c) {
  return sum(product(a, b), c);
}
template <class T>
T high_product_plus(T a, T b, T c) {
  return sum(high_product(a, b), c);
}
template <class T>
T distance_plus(T a, T b, T c) {
  return sum(a < b ? difference(b, a) : difference(a, b), c);
}
template <class T>
T fused(T a, T b, T c) {
  return std::fma(a, b, c);
}

template <class T>
using op_add = binary<T, sum<T>>;
template <class T>
using op_sub = binary<T, difference<T>>;
template <class T>
using op_mul = binary<T, product<T>>;
template <class T>
using op_mul_high = binary<T, high_product<T>>;
template <class T>
using op_mad = ternary<T, product_plus<T>>;
template <class T>
using op_mad_high = ternary<T, high_product_plus<T>>;
template <class T>
using op_sad = ternary<T, distance_plus<T>>;
template <class T>
using op_fma = ternary<T, fused<T>>;
template <class T>
using op_div = binary<T, quotient<T>>;
template <class T>
using op_rem = binary<T, remainder_of<T>>;
template <class T>
using op_min = binary<T, least<T>>;
template <class T>
using op_max = binary<T, most<T>>;
template <class T>
using op_neg = unary<T, negative<T>>;
template <class T>
using op_abs = unary<T, magnitude<T>>;

/// The product has twice the width.
template <class T>
struct op_mul_wide {
  static bool run(thread& t, instruction const& i) {
    put(t, i.d, product<wide_t<T>>(get<T>(t, i.a), get<T>(t, i.b)));
    return true;
  }
};
template <class T>
struct op_mad_wide {
  static bool run(thread& t, instruction const& i) {
    put(t, i.d, sum(product<wide_t<T>>(get<T>(t, i.a), get<T>(t, i.b)), get<wide_t<T>>(t, i.c)));
    return true;
  }
};

template <class T>
T reciprocal(T a) {
  return T{1} / a;
}
template <class T>
T root(T a) {
  return std::sqrt(a);
}
template <class T>
T reciprocal_root(T a) {
  return T{1} / std::sqrt(a);
}
inline float sine(float a) { return std::sin(a); }
inline float cosine(float a) { return std::cos(a); }
inline float logarithm(float a) { return std::log2(a); }
inline float power(float a) { return std::exp2(a); }
template <class T>
using op_rcp = unary<T, reciprocal<T>>;
template <class T>
using op_sqrt = unary<T, root<T>>;
template <class T>
using op_rsqrt = unary<T, reciprocal_root<T>>;

/// Runs an operation in the rounding of its mode, which is not to nearest.
template <class T, class Op>
bool run_rounded(thread& t, instruction const& i) {
  rounding const r(i.mode);
  return Op::run(t, i);
}
template <template <class> class Op>
handler of_rounded_float(draft const& text) {
  if (text.rounding() == 0) return of_float<Op>(text.type());
  if (text.type() == "f32") return run_rounded<float, Op<float>>;
  if (text.type() == "f64") return run_rounded<double, Op<double>>;
  return nullptr;
}
template <template <class> class Op>
handler of_rounded_number(draft const& text) {
  return text.is_float() ? of_rounded_float<Op>(text) : of_integer<Op>(text.type());
}

handler select_mul(draft const& text, instruction&) {
  if (text.has("wide")) return of_medium_integer<op_mul_wide>(text.type());
  if (text.has("hi")) return of_integer<op_mul_high>(text.type());
  return of_rounded_number<op_mul>(text);
}
handler select_mad(draft const& text, instruction&) {
  if (text.is_float()) return of_rounded_float<op_fma>(text);
  if (text.has("wide")) return of_medium_integer<op_mad_wide>(text.type());
  if (text.has("hi")) return of_integer<op_mad_high>(text.type());
  return of_integer<op_mad>(text.type());
}

template <auto F>
handler select_single(draft const& text, instruction&) {
  return text.type() == "f32" ? unary<float, F>::run : nullptr;
}

}  // namespace

void add_arithmetic(opcode_table& table) {
  table["add"] = [](draft const& text, instruction&) { return of_rounded_number<op_add>(text); };
  table["sub"] = [](draft const& text, instruction&) { return of_rounded_number<op_sub>(text); };
  table["mul"] = select_mul;
  table["mad"] = select_mad;
  table["fma"] = [](draft const& text, instruction&) { return of_rounded_float<op_fma>(text); };
  table["sad"] = [](draft const& text, instruction&) { return of_integer<op_sad>(text.type()); };
  table["div"] = [](draft const& text, instruction&) { return of_rounded_number<op_div>(text); };
  table["rem"] = [](draft const& text, instruction&) { return of_integer<op_rem>(text.type()); };
  table["min"] = [](draft const& text, instruction&) { return of_number<op_min>(text.type()); };
  table["max"] = [](draft const& text, instruction&) { return of_number<op_max>(text.type()); };
  table["neg"] = [](draft const& text, instruction&) { return of_number<op_neg>(text.type()); };
  table["abs"] = [](draft const& text, instruction&) { return of_number<op_abs>(text.type()); };
  table["rcp"] = [](draft const& text, instruction&) { return of_rounded_float<op_rcp>(text); };
  table["sqrt"] = [](draft const& text, instruction&) { return of_rounded_float<op_sqrt>(text); };
  table["rsqrt"] = [](draft const& text, instruction&) { return of_float<op_rsqrt>(text.type()); };
  table["sin"] = select_single<sine>;
  table["cos"] = select_single<cosine>;
  table["lg2"] = select_single<logarithm>;
  table["ex2"] = select_single<power>;
}

}  // namespace emulator
