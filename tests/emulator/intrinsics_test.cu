// tests/emulator/intrinsics_test.cu — instructions against formulas of the host, on values that include the odd ones.
#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace intrinsics {  // CUDA has some of the names below

namespace {

using word = std::uint32_t;
using long_word = std::uint64_t;

constexpr unsigned lanes = 32;

/// Each operation has a device's run(a, b, lane) and the host's expected(a, b, lane).
template <class Op, class T, class R>
__global__ void apply(R* results, T const* a, T const* b) {
  auto const i = threadIdx.x;
  results[i] = Op::run(a[i], b[i], i);
}

template <class T>
struct on_device {
  T* p = nullptr;
  explicit on_device(std::size_t n) { REQUIRE(cudaMalloc(&p, n * sizeof(T)) == cudaSuccess); }
  explicit on_device(std::vector<T> const& v) : on_device(v.size()) {
    cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~on_device() { cudaFree(p); }
};

template <class Op, class T>
auto results_of(std::vector<T> const& a, std::vector<T> const& b) {
  using R = decltype(Op::expected(T(), T(), 0u));
  auto const x = on_device<T>(a), y = on_device<T>(b);
  auto const z = on_device<R>(a.size());
  apply<Op, T, R><<<1, static_cast<unsigned>(a.size())>>>(z.p, x.p, y.p);
  auto results = std::vector<R>(a.size());
  REQUIRE(cudaMemcpy(results.data(), z.p, results.size() * sizeof(R), cudaMemcpyDeviceToHost) == cudaSuccess);
  return results;
}

/// A device has one NaN of single precision; that of double precision may be any.
word bits_of(float v) { return v != v ? 0x7fffffff : std::bit_cast<word>(v); }
long_word bits_of(double v) { return v != v ? 0x7ff8000000000000 : std::bit_cast<long_word>(v); }
template <class T>
T bits_of(T v) requires std::is_integral_v<T> {
  return v;
}

template <class Op, class T>
void check(std::vector<T> const& a, std::vector<T> const& b) {
  auto const results = results_of<Op>(a, b);
  for (unsigned i = 0; i < a.size(); ++i) {
    INFO("of " << a[i] << " and " << b[i]);
    CHECK(bits_of(results[i]) == bits_of(Op::expected(a[i], b[i], i)));
  }
}

template <class T>
std::vector<T> integers(unsigned seed) {
  using limits = std::numeric_limits<T>;
  auto v = std::vector<T>{0, 1, 2, 31, 32, limits::max(), limits::min(), static_cast<T>(-1), static_cast<T>(-7)};
  for (long_word x = seed; v.size() < lanes;) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    v.push_back(static_cast<T>(x >> 20));
  }
  std::rotate(v.begin(), v.begin() + seed % lanes, v.end());
  return v;
}

template <class T>
std::vector<T> reals(unsigned seed) {
  using limits = std::numeric_limits<T>;
  auto v = std::vector<T>{T(0),
                          T(-0.0),
                          T(1),
                          T(-1.5),
                          T(0.5),
                          T(2.5),
                          limits::infinity(),
                          -limits::infinity(),
                          limits::quiet_NaN(),
                          limits::max(),
                          limits::min(),
                          limits::denorm_min(),
                          -limits::denorm_min()};
  for (auto const x : integers<std::int32_t>(seed + 1))
    if (v.size() < lanes) v.push_back(static_cast<T>(x) / T(1 << 24) * (x % 3 == 0 ? T(1e9) : T(1)));
  std::rotate(v.begin(), v.begin() + seed % lanes, v.end());
  return v;
}

}  // namespace

// Integers.

namespace {

#define OPERATION(name, type, result, device, host)                                            \
  struct name {                                                                                \
    static __device__ result run([[maybe_unused]] type a, [[maybe_unused]] type b, unsigned) { \
      return static_cast<result>(device);                                                      \
    }                                                                                          \
    static result expected([[maybe_unused]] type a, [[maybe_unused]] type b, unsigned) {       \
      return static_cast<result>(host);                                                        \
    }                                                                                          \
  }

word reversed(word a) {
  word r = 0;
  for (unsigned k = 0; k < 32; ++k) r |= (a >> k & 1) << (31 - k);
  return r;
}
/// Byte k of the result is that of the eight bytes of a and b which digit k of a selector names.
word permuted(word a, word b, std::array<unsigned, 4> digits) {
  auto const all = long_word{b} << 32 | a;
  word r = 0;
  for (unsigned k = 0; k < 4; ++k) r |= static_cast<word>(all >> 8 * digits[k] & 255) << 8 * k;
  return r;
}
__extension__ using wide = unsigned __int128;

OPERATION(popc, word, word, __popc(a), std::popcount(a));
OPERATION(clz, word, word, __clz(static_cast<int>(a)), std::countl_zero(a));
OPERATION(ffs, word, word, __ffs(static_cast<int>(a)), a == 0 ? 0 : std::countr_zero(a) + 1);
OPERATION(brev, word, word, __brev(a), reversed(a));
OPERATION(byte_perm, word, word, __byte_perm(a, b, 0x3715), permuted(a, b, {5, 1, 7, 3}));
OPERATION(umulhi, word, word, __umulhi(a, b), long_word{a} * b >> 32);
OPERATION(funnel, word, word, __funnelshift_l(a, b, b), (long_word{b} << 32 | a) << (b & 31) >> 32);
OPERATION(funnel_clamped, word, word, __funnelshift_rc(a, b, b), (long_word{b} << 32 | a) >> std::min(b, 32u));
OPERATION(shift_left, word, word, b < 32 ? a << b : 0, b < 32 ? a << b : 0);
OPERATION(quotient, word, word, a / (b | 1), a / (b | 1));
OPERATION(remainder, word, word, a % (b | 1), a % (b | 1));
OPERATION(sad, word, word, __usad(a, b, 7u), (a > b ? a - b : b - a) + 7);
OPERATION(mulhi, std::int32_t, std::int32_t, __mulhi(a, b), std::int64_t{a} * b >> 32);
OPERATION(signed_quotient, std::int32_t, std::int32_t, b == 0 || b == -1 ? 0 : a / b, b == 0 || b == -1 ? 0 : a / b);
OPERATION(signed_remainder, std::int32_t, std::int32_t, b == 0 || b == -1 ? 0 : a % b, b == 0 || b == -1 ? 0 : a % b);
OPERATION(signed_shift, std::int32_t, std::int32_t, a >> (b & 31), a >> (b & 31));
OPERATION(narrowed, std::int32_t, std::int32_t, static_cast<signed char>(a), static_cast<signed char>(a));
OPERATION(popcll, long_word, word, __popcll(a), std::popcount(a));
OPERATION(clzll, long_word, word, __clzll(static_cast<long long>(a)), std::countl_zero(a));
OPERATION(umul64hi, long_word, long_word, __umul64hi(a, b), static_cast<wide>(a) * b >> 64);
OPERATION(long_remainder, long_word, long_word, a % (b | 1), a % (b | 1));

}  // namespace

TEST_CASE_TEMPLATE("words of 32 bits", Op, popc, clz, ffs, brev, byte_perm, umulhi, funnel, funnel_clamped, shift_left,
                   quotient, remainder, sad) {
  check<Op>(integers<word>(1), integers<word>(5));
}
TEST_CASE_TEMPLATE("signed words", Op, mulhi, signed_quotient, signed_remainder, signed_shift, narrowed) {
  check<Op>(integers<std::int32_t>(2), integers<std::int32_t>(9));
}
TEST_CASE_TEMPLATE("words of 64 bits", Op, popcll, clzll, umul64hi, long_remainder) {
  check<Op>(integers<long_word>(3), integers<long_word>(11));
}

// Floating point, in each of the roundings.

namespace {

/// The host's value in a rounding; what is volatile is computed while it holds.
template <class F>
auto in_rounding(int mode, F const& f) {
  std::fesetround(mode);
  auto volatile const value = f();
  std::fesetround(FE_TONEAREST);
  return value;
}

#define ROUNDED(name, type, result, mode, device, host)                                        \
  struct name {                                                                                \
    static __device__ result run(type a, [[maybe_unused]] type b, unsigned) { return device; } \
    static result expected(type x, [[maybe_unused]] type y, unsigned) {                        \
      type volatile const a = x;                                                               \
      [[maybe_unused]] type volatile const b = y;                                              \
      return in_rounding(mode, [&] { return host; });                                          \
    }                                                                                          \
  }
#define ROUNDINGS(name, type, result, nearest, zero, down, up, host) \
  ROUNDED(name##_rn, type, result, FE_TONEAREST, nearest, host);     \
  ROUNDED(name##_rz, type, result, FE_TOWARDZERO, zero, host);       \
  ROUNDED(name##_rd, type, result, FE_DOWNWARD, down, host);         \
  ROUNDED(name##_ru, type, result, FE_UPWARD, up, host)

ROUNDINGS(add, float, float, __fadd_rn(a, b), __fadd_rz(a, b), __fadd_rd(a, b), __fadd_ru(a, b), a + b);
ROUNDINGS(sub, float, float, __fsub_rn(a, b), __fsub_rz(a, b), __fsub_rd(a, b), __fsub_ru(a, b), a - b);
ROUNDINGS(mul, float, float, __fmul_rn(a, b), __fmul_rz(a, b), __fmul_rd(a, b), __fmul_ru(a, b), a* b);
ROUNDINGS(div, float, float, __fdiv_rn(a, b), __fdiv_rz(a, b), __fdiv_rd(a, b), __fdiv_ru(a, b), a / b);
ROUNDINGS(root, float, float, __fsqrt_rn(a), __fsqrt_rz(a), __fsqrt_rd(a), __fsqrt_ru(a), std::sqrt(a));
ROUNDINGS(fma, float, float, __fmaf_rn(a, b, -1.0f), __fmaf_rz(a, b, -1.0f), __fmaf_rd(a, b, -1.0f),
          __fmaf_ru(a, b, -1.0f), std::fma(a, b, -1.0f));
ROUNDINGS(add_double, double, double, __dadd_rn(a, b), __dadd_rz(a, b), __dadd_rd(a, b), __dadd_ru(a, b), a + b);
ROUNDINGS(mul_double, double, double, __dmul_rn(a, b), __dmul_rz(a, b), __dmul_rd(a, b), __dmul_ru(a, b), a* b);
ROUNDINGS(div_double, double, double, __ddiv_rn(a, b), __ddiv_rz(a, b), __ddiv_rd(a, b), __ddiv_ru(a, b), a / b);
ROUNDINGS(narrow, double, float, __double2float_rn(a), __double2float_rz(a), __double2float_rd(a), __double2float_ru(a),
          static_cast<float>(a));
ROUNDINGS(of_int, std::int32_t, float, __int2float_rn(a), __int2float_rz(a), __int2float_rd(a), __int2float_ru(a),
          static_cast<float>(a));

/// The nearest integer that the type has; PTX defines one for NaN.
template <class R>
R limited(double v, R of_nan) {
  if (v != v) return of_nan;
  if (v >= std::ldexp(1.0, std::numeric_limits<R>::digits)) return std::numeric_limits<R>::max();
  if (v <= static_cast<double>(std::numeric_limits<R>::min())) return std::numeric_limits<R>::min();
  return static_cast<R>(v);
}
using integer = std::int32_t;
using long_integer = std::int64_t;
constexpr auto long_nan = std::numeric_limits<long_integer>::min();
OPERATION(to_int_rn, float, integer, __float2int_rn(a), limited(std::nearbyint(a), 0));
OPERATION(to_int_rz, float, integer, __float2int_rz(a), limited(std::trunc(a), 0));
OPERATION(to_int_rd, float, integer, __float2int_rd(a), limited(std::floor(a), 0));
OPERATION(to_int_ru, float, integer, __float2int_ru(a), limited(std::ceil(a), 0));
OPERATION(to_word, float, word, __float2uint_rz(a), limited(std::trunc(a), word{0}));
OPERATION(to_long, float, long_integer, __float2ll_rz(a), limited(std::trunc(a), long_nan));
OPERATION(greatest, float, float, fmaxf(a, b), std::fmax(a, b));
OPERATION(smallest, float, float, fminf(a, b), std::fmin(a, b));
OPERATION(rounded, float, float, rintf(a), std::nearbyint(a));
OPERATION(truncated, float, float, truncf(a), std::trunc(a));
OPERATION(less, float, word, a < b, a < b);
OPERATION(not_less, float, word, !(a < b), !(a < b));
OPERATION(is_nan, float, word, isnan(a), a != a);

}  // namespace

TEST_CASE("the host's roundings differ") {
  CHECK(add_rd::expected(1, 1e-9f, 0) < add_ru::expected(1, 1e-9f, 0));
  CHECK(add_rz::expected(-1, -1e-9f, 0) > add_rd::expected(-1, -1e-9f, 0));
  CHECK(narrow_rd::expected(0.1, 0, 0) < narrow_ru::expected(0.1, 0, 0));
}
TEST_CASE_TEMPLATE("single precision", Op, add_rn, add_rz, add_rd, add_ru, sub_rn, sub_rz, sub_rd, sub_ru, mul_rn,
                   mul_rz, mul_rd, mul_ru, div_rn, div_rz, div_rd, div_ru, root_rn, root_rz, root_rd, root_ru, fma_rn,
                   fma_rz, fma_rd, fma_ru, to_int_rn, to_int_rz, to_int_rd, to_int_ru, to_word, to_long, greatest,
                   smallest, rounded, truncated, less, not_less, is_nan) {
  check<Op>(reals<float>(4), reals<float>(17));
}
TEST_CASE_TEMPLATE("double precision", Op, add_double_rn, add_double_rz, add_double_rd, add_double_ru, mul_double_rn,
                   mul_double_rz, mul_double_rd, mul_double_ru, div_double_rn, div_double_rz, div_double_rd,
                   div_double_ru, narrow_rn, narrow_rz, narrow_rd, narrow_ru) {
  check<Op>(reals<double>(6), reals<double>(20));
}
TEST_CASE_TEMPLATE("integers to single precision", Op, of_int_rn, of_int_rz, of_int_rd, of_int_ru) {
  check<Op>(integers<std::int32_t>(7), integers<std::int32_t>(8));
}

// Warps: expected(values, lane) of all values.

namespace {

using values = std::vector<word>;

template <class Op>
__global__ void apply_warp(word* results, word const* a) {
  results[threadIdx.x] = Op::run(a[threadIdx.x], threadIdx.x);
}

template <class Op>
void check_warp(values const& a) {
  auto const x = on_device<word>(a), z = on_device<word>(a.size());
  apply_warp<Op><<<1, lanes>>>(z.p, x.p);
  auto results = values(a.size());
  REQUIRE(cudaMemcpy(results.data(), z.p, results.size() * sizeof(word), cudaMemcpyDeviceToHost) == cudaSuccess);
  for (unsigned lane = 0; lane < lanes; ++lane) CHECK(results[lane] == Op::expected(a, lane));
}

/// A bit for each lane whose value fulfils p.
template <class P>
word votes(values const& v, P const& p) {
  word made = 0;
  for (unsigned k = 0; k < lanes; ++k) made |= static_cast<word>(p(v[k])) << k;
  return made;
}
template <class F>
word folded(values const& v, F const& f) {
  auto made = v[0];
  for (unsigned k = 1; k < lanes; ++k) made = f(made, v[k]);
  return made;
}

#define WARP_OPERATION(name, device, host)                                                                    \
  struct name {                                                                                               \
    static __device__ word run(word a, [[maybe_unused]] unsigned lane) { return static_cast<word>(device); }  \
    static word expected(values const& v, [[maybe_unused]] unsigned lane) { return static_cast<word>(host); } \
  }

constexpr unsigned all = ~0u;
WARP_OPERATION(butterfly, __shfl_xor_sync(all, a, 5), v[lane ^ 5]);
WARP_OPERATION(up, __shfl_up_sync(all, a, 3), lane < 3 ? v[lane] : v[lane - 3]);
WARP_OPERATION(down, __shfl_down_sync(all, a, 7), lane > 24 ? v[lane] : v[lane + 7]);
WARP_OPERATION(of_segment, __shfl_sync(all, a, 9, 8), v[(lane & ~7u) | 1]);
WARP_OPERATION(up_in_segment, __shfl_up_sync(all, a, 2, 8), lane % 8 < 2 ? v[lane] : v[lane - 2]);
WARP_OPERATION(rotated, __shfl_sync(all, a, static_cast<int>(lane + 1)), v[(lane + 1) % 32]);
WARP_OPERATION(ballot, __ballot_sync(all, a & 1), votes(v, [](word a) { return a & 1; }));
WARP_OPERATION(match, __match_any_sync(all, a & 3), votes(v, [&](word a) { return (a & 3) == (v[lane] & 3); }));
WARP_OPERATION(every, __all_sync(all, a != 12345), 1);
WARP_OPERATION(some, __any_sync(all, a == 12345), 0);
WARP_OPERATION(sum, __reduce_add_sync(all, a), folded(v, [](word a, word b) { return a + b; }));
WARP_OPERATION(most, __reduce_max_sync(all, a), folded(v, [](word a, word b) { return std::max(a, b); }));
WARP_OPERATION(least, __reduce_min_sync(all, a), folded(v, [](word a, word b) { return std::min(a, b); }));
WARP_OPERATION(disjunction, __reduce_or_sync(all, a & 5), folded(v, [](word a, word b) { return a | b; }) & 5);

}  // namespace

TEST_CASE_TEMPLATE("a warp", Op, butterfly, up, down, of_segment, up_in_segment, rotated, ballot, match, every, some,
                   sum, most, least, disjunction) {
  check_warp<Op>(integers<word>(13));
}

}  // namespace intrinsics
