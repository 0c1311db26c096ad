// ops.cpp — instructions of PTX: their decoding and what they do.
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#include <type_traits>

#include "ptx/state.hpp"

namespace emulator {

namespace {

using std::int16_t, std::int32_t, std::int64_t, std::int8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };

template <class T>
T get(thread const& t, uint32_t slot) {
  T v;
  std::memcpy(&v, &t.r[slot], sizeof v);
  return v;
}
/// A signed value is extended to the whole register; a NaN is the one that the device makes.
template <class T>
void put(thread& t, uint32_t slot, T v) {
  if constexpr (std::is_same_v<T, float>) {
    if (v != v) {
      t.r[slot] = 0x7fffffff;
      return;
    }
  }
  if constexpr (std::is_integral_v<T>) {
    t.r[slot] = static_cast<uint64_t>(static_cast<int64_t>(v));
    if constexpr (std::is_unsigned_v<T>) t.r[slot] = static_cast<uint64_t>(v);
  } else {
    t.r[slot] = 0;
    std::memcpy(&t.r[slot], &v, sizeof v);
  }
}

template <class T> using wide_of = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;
template <class T> struct uns { using type = std::make_unsigned_t<T>; };
template <class T> using uns_t = typename uns<T>::type;

// Rounding of floating point: 0 rn, 1 rz, 2 rm, 3 rp.
struct rounding {
  int old = FE_TONEAREST;
  bool set;
  explicit rounding(unsigned mode) : set(mode != 0) {
    if (!set) return;
    static int const of[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    old = std::fegetround();
    std::fesetround(of[mode & 3]);
  }
  ~rounding() { if (set) std::fesetround(old); }
};

#define BINARY(NAME, EXPR)                                                     \
  template <class T> struct NAME {                                             \
    static bool run(thread& t, inst const& i) {                                \
      T const a = get<T>(t, i.a), b = get<T>(t, i.b);                          \
      put<T>(t, i.d, static_cast<T>(EXPR));                                    \
      return true;                                                             \
    }                                                                          \
  };
#define UNARY(NAME, EXPR)                                                      \
  template <class T> struct NAME {                                             \
    static bool run(thread& t, inst const& i) {                                \
      T const a = get<T>(t, i.a);                                              \
      put<T>(t, i.d, static_cast<T>(EXPR));                                    \
      return true;                                                             \
    }                                                                          \
  };

template <class T> T wrap_add(T a, T b) { if constexpr (std::is_floating_point_v<T>) return a + b; else return T(uint64_t(a) + uint64_t(b)); }
template <class T> T wrap_sub(T a, T b) { if constexpr (std::is_floating_point_v<T>) return a - b; else return T(uint64_t(a) - uint64_t(b)); }
template <class T> T wrap_mul(T a, T b) { if constexpr (std::is_floating_point_v<T>) return a * b; else return T(uint64_t(a) * uint64_t(b)); }
template <class T> T divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a / b;
  else {
    if (b == 0) return T(~T(0));
    if constexpr (std::is_signed_v<T>) if (b == T(-1)) return T(0 - uint64_t(a));
    return T(a / b);
  }
}
template <class T> T remain(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) if (b == T(-1)) return 0;
  return T(a % b);
}
template <class T> T least(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <class T> T most(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

BINARY(op_add, wrap_add(a, b))
BINARY(op_sub, wrap_sub(a, b))
BINARY(op_mul, wrap_mul(a, b))
BINARY(op_div, divide(a, b))
BINARY(op_min, least(a, b))
BINARY(op_max, most(a, b))
BINARY(op_rem, remain(a, b))
BINARY(op_and, a & b)
BINARY(op_or, a | b)
BINARY(op_xor, a ^ b)
BINARY(op_mulhi, static_cast<wide_of<T>>(a) * b >> (8 * sizeof(T)))
UNARY(op_not, ~a)
UNARY(op_mov, a)
UNARY(op_rcp, T(1) / a)
UNARY(op_sqrt, std::sqrt(a))

/// As floating point with a rounding that is not the nearest.
template <class T, class Op>
bool rounded(thread& t, inst const& i) {
  rounding const r(i.mode);
  return Op::run(t, i);
}

template <class T> struct op_neg {
  static bool run(thread& t, inst const& i) {
    auto const a = get<T>(t, i.a);
    if constexpr (std::is_floating_point_v<T>) put<T>(t, i.d, -a);
    else put<T>(t, i.d, T(0 - uint64_t(a)));
    return true;
  }
};
template <class T> struct op_abs {
  static bool run(thread& t, inst const& i) {
    auto const a = get<T>(t, i.a);
    if constexpr (std::is_floating_point_v<T>) put<T>(t, i.d, std::fabs(a));
    else if constexpr (std::is_signed_v<T>) put<T>(t, i.d, a < 0 ? T(0 - uint64_t(a)) : a);
    else put<T>(t, i.d, a);
    return true;
  }
};
template <class T> struct op_mulwide {
  static bool run(thread& t, inst const& i) {
    using W = wide_of<T>;
    put<W>(t, i.d, static_cast<W>(static_cast<W>(get<T>(t, i.a)) * static_cast<W>(get<T>(t, i.b))));
    return true;
  }
};
template <class T> struct op_madwide {
  static bool run(thread& t, inst const& i) {
    using W = wide_of<T>;
    put<W>(t, i.d, wrap_add<W>(static_cast<W>(get<T>(t, i.a)) * static_cast<W>(get<T>(t, i.b)), get<W>(t, i.c)));
    return true;
  }
};
template <class T> struct op_mad {
  static bool run(thread& t, inst const& i) {
    put<T>(t, i.d, wrap_add<T>(wrap_mul<T>(get<T>(t, i.a), get<T>(t, i.b)), get<T>(t, i.c)));
    return true;
  }
};
template <class T> struct op_madhi {
  static bool run(thread& t, inst const& i) {
    auto const hi = static_cast<T>(static_cast<wide_of<T>>(get<T>(t, i.a)) * get<T>(t, i.b) >> (8 * sizeof(T)));
    put<T>(t, i.d, wrap_add<T>(hi, get<T>(t, i.c)));
    return true;
  }
};
/// mode >> 4: 0 a*b+c, 1 a*b-c, 2 c-a*b; the others are what ptxas may make of mul and sub.
template <class T> struct op_fma {
  static bool run(thread& t, inst const& i) {
    auto a = get<T>(t, i.a), c = get<T>(t, i.c);
    if (i.mode >> 4 == 1) c = -c;
    if (i.mode >> 4 == 2) a = -a;
    put<T>(t, i.d, std::fma(a, get<T>(t, i.b), c));
    return true;
  }
};

template <class T> struct op_shl {
  static bool run(thread& t, inst const& i) {
    auto const n = get<uint32_t>(t, i.b);
    put<T>(t, i.d, n >= 8 * sizeof(T) ? T(0) : T(uint64_t(get<T>(t, i.a)) << n));
    return true;
  }
};
template <class T> struct op_shr {
  static bool run(thread& t, inst const& i) {
    auto n = get<uint32_t>(t, i.b);
    auto const a = get<T>(t, i.a);
    if (n >= 8 * sizeof(T)) put<T>(t, i.d, std::is_signed_v<T> && a < 0 ? T(-1) : T(0));
    else put<T>(t, i.d, T(a >> n));
    return true;
  }
};
template <class T> struct op_selp {
  static bool run(thread& t, inst const& i) {
    put<T>(t, i.d, get<T>(t, t.r[i.c] & 1 ? i.a : i.b));
    return true;
  }
};
UNARY(op_brev_, a)
template <class T> struct op_popc {
  static bool run(thread& t, inst const& i) { put<uint32_t>(t, i.d, __builtin_popcountll(get<T>(t, i.a))); return true; }
};
template <class T> struct op_clz {
  static bool run(thread& t, inst const& i) {
    uint64_t const a = get<T>(t, i.a);
    put<uint32_t>(t, i.d, a == 0 ? unsigned{8 * sizeof(T)} : static_cast<unsigned>(__builtin_clzll(a)) - unsigned{64 - 8 * sizeof(T)});
    return true;
  }
};
template <class T> struct op_brev {
  static bool run(thread& t, inst const& i) {
    auto a = get<T>(t, i.a);
    T r = 0;
    for (unsigned k = 0; k < 8 * sizeof(T); ++k, a >>= 1) r = T(r << 1 | (a & 1));
    put<T>(t, i.d, r);
    return true;
  }
};
template <class T> struct op_bfind {
  static bool run(thread& t, inst const& i) {
    auto a = get<T>(t, i.a);
    if constexpr (std::is_signed_v<T>) if (a < 0) a = ~a;
    uint64_t const u = static_cast<uns_t<T>>(a);
    auto at = u == 0 ? 0xffffffffu : 63u - __builtin_clzll(u);
    if (i.mode && u != 0) at = 8 * sizeof(T) - 1 - at;
    put<uint32_t>(t, i.d, at);
    return true;
  }
};
template <class T> struct op_bfi {
  static bool run(thread& t, inst const& i) {
    constexpr unsigned all = 8 * sizeof(T);
    auto const from = get<T>(t, i.a), into = get<T>(t, i.b);
    auto const at = get<uint32_t>(t, i.c) & 0xff, n = get<uint32_t>(t, i.e) & 0xff;
    T const mask = at >= all || n == 0 ? T(0) : T((n >= all ? ~T(0) : T((T(1) << n) - 1)) << at);
    put<T>(t, i.d, T((into & ~mask) | (at >= all ? T(0) : T(T(from << at) & mask))));
    return true;
  }
};
template <class T> struct op_bfe {
  static bool run(thread& t, inst const& i) {
    constexpr unsigned all = 8 * sizeof(T);
    auto const a = get<T>(t, i.a);
    auto const at = get<uint32_t>(t, i.b) & 0xff, n = get<uint32_t>(t, i.c) & 0xff;
    uint64_t const u = static_cast<uns_t<T>>(a);
    auto const bit = [&](unsigned k) { return k < all ? u >> k & 1 : 0; };
    auto const sign = std::is_signed_v<T> && n > 0 ? bit(std::min(at + n - 1, all - 1)) : 0;
    uint64_t r = 0;
    for (unsigned k = 0; k < all; ++k) r |= (k < n && at + k < all ? bit(at + k) : sign) << k;
    put<T>(t, i.d, static_cast<T>(r));
    return true;
  }
};

template <class T> bool compares(T a, T b, unsigned how) {
  bool nan = false;
  if constexpr (std::is_floating_point_v<T>) nan = a != a || b != b;
  switch (how) {
    case 0: return !nan && a == b;
    case 1: return !nan && a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    case 5: return a >= b;
    case 6: return nan || a == b;
    case 7: return nan || a != b;
    case 8: return nan || a < b;
    case 9: return nan || a <= b;
    case 10: return nan || a > b;
    case 11: return nan || a >= b;
    case 12: return !nan;
    default: return nan;
  }
}
/// mode: how, and above it 1 and, 2 or, 3 xor with c (imm: c is negated).
template <class T> struct op_setp {
  static bool run(thread& t, inst const& i) {
    bool const is = compares(get<T>(t, i.a), get<T>(t, i.b), i.mode & 15);
    bool const other = i.mode >> 4 ? (t.r[i.c] & 1) != static_cast<uint64_t>(i.imm) : false;
    auto const joined = [&](bool v) { return i.mode >> 4 == 1 ? v && other : i.mode >> 4 == 2 ? v || other : i.mode >> 4 == 3 ? v != other : v; };
    t.r[i.d] = joined(is);
    if (i.d2) t.r[i.d2] = joined(!is);
    return true;
  }
};

// Conversions.
float half_to_float(uint16_t h) { _Float16 v; std::memcpy(&v, &h, 2); return static_cast<float>(v); }
uint16_t float_to_bf16(float f) {
  uint32_t u; std::memcpy(&u, &f, 4);
  if (f != f) return 0x7fff;
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
template <class S> double widened(S v) {
  if constexpr (std::is_same_v<S, f16>) return half_to_float(v.bits);
  else if constexpr (std::is_same_v<S, bf16>) { uint32_t u = uint32_t(v.bits) << 16; float f; std::memcpy(&f, &u, 4); return f; }
  else return static_cast<double>(v);
}
template <class T> constexpr bool is_float = std::is_floating_point_v<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

/// mode: 0 to 3 rn rz rm rp, 4 to 7 rni rzi rmi rpi, +8 without a word; imm: sat.
template <class D, class S> struct op_cvt {
  static bool run(thread& t, inst const& i) {
    auto const s = get<S>(t, i.a);
    if constexpr (!is_float<S> && !is_float<D>) {
      if (i.imm) {
        auto const v = static_cast<__int128>(s);
        auto const lo = static_cast<__int128>(std::numeric_limits<D>::min()), hi = static_cast<__int128>(std::numeric_limits<D>::max());
        put<D>(t, i.d, static_cast<D>(v < lo ? lo : v > hi ? hi : v));
      } else put<D>(t, i.d, static_cast<D>(s));
    } else if constexpr (!is_float<S> && std::is_floating_point_v<D>) {
      rounding const r(i.mode & 3);
      D volatile const v = static_cast<D>(s);
      put<D>(t, i.d, v);
    } else if constexpr (is_float<S> && !is_float<D>) {
      auto const x = widened(s);
      if (x != x) {
        put<D>(t, i.d, std::is_same_v<S, double> || sizeof(D) == 8 ? static_cast<D>(uint64_t{1} << (8 * sizeof(D) - 1)) : D(0));
        return true;
      }
      auto const w = i.mode == 4 ? std::nearbyint(x) : i.mode == 5 ? std::trunc(x) : i.mode == 6 ? std::floor(x) : std::ceil(x);
      auto const hi = std::ldexp(1.0, 8 * sizeof(D) - (std::is_signed_v<D> ? 1 : 0)), lo = std::is_signed_v<D> ? -hi : 0.0;
      put<D>(t, i.d, w >= hi ? std::numeric_limits<D>::max() : w <= lo ? std::numeric_limits<D>::min() : static_cast<D>(w));
    } else {
      double x = widened(s);
      if (i.mode >= 4 && i.mode < 8) x = i.mode == 4 ? std::nearbyint(x) : i.mode == 5 ? std::trunc(x) : i.mode == 6 ? std::floor(x) : std::ceil(x);
      if (i.imm) x = x != x ? 0.0 : x < 0 ? 0.0 : x > 1 ? 1.0 : x;
      if constexpr (std::is_same_v<D, f16>) {
        auto const h = static_cast<_Float16>(x);
        uint16_t u; std::memcpy(&u, &h, 2);
        t.r[i.d] = x != x ? 0x7fff : u;
      } else if constexpr (std::is_same_v<D, bf16>) {
        t.r[i.d] = float_to_bf16(static_cast<float>(x));
      } else {
        rounding const r(i.mode < 4 ? i.mode : 0);
        double volatile const from = x;
        put<D>(t, i.d, static_cast<D>(from));
      }
    }
    return true;
  }
};

// Memory.
template <class T> struct op_ld {
  static bool run(thread& t, inst const& i) {
    auto const* const p = touch(t, i, t.r[i.a] + static_cast<uint64_t>(i.imm), sizeof(T) * i.vec, false, false);
    if (i.vec == 1) {
      T v; std::memcpy(&v, p, sizeof v);
      if constexpr (std::is_floating_point_v<T>) { t.r[i.d] = 0; std::memcpy(&t.r[i.d], &v, sizeof v); } else put<T>(t, i.d, v);
    } else for (unsigned k = 0; k < i.vec; ++k) {
      T v; std::memcpy(&v, p + sizeof(T) * k, sizeof v);
      if (i.more[k] == 0) continue;
      if constexpr (std::is_floating_point_v<T>) { t.r[i.more[k]] = 0; std::memcpy(&t.r[i.more[k]], &v, sizeof v); } else put<T>(t, i.more[k], v);
    }
    return true;
  }
};
template <class T> struct op_st {
  static bool run(thread& t, inst const& i) {
    unsigned char bytes[32];
    for (unsigned k = 0; k < i.vec; ++k) std::memcpy(bytes + sizeof(T) * k, &t.r[i.vec == 1 ? i.b : i.more[k]], sizeof(T));
    auto* const p = touch(t, i, t.r[i.a] + static_cast<uint64_t>(i.imm), sizeof(T) * i.vec, true, false, bytes);
    std::memcpy(p, bytes, sizeof(T) * i.vec);
    return true;
  }
};
template <class T> struct op_atom {
  static bool run(thread& t, inst const& i) {
    auto* const p = touch(t, i, t.r[i.a] + static_cast<uint64_t>(i.imm), sizeof(T), true, true);
    T old; std::memcpy(&old, p, sizeof old);
    T const b = get<T>(t, i.b);
    T now = old;
    switch (i.mode) {
      case 0: now = wrap_add<T>(old, b); break;
      case 1: now = least<T>(old, b); break;
      case 2: now = most<T>(old, b); break;
      case 3: now = b; break;
      case 4: if (std::memcmp(&old, &b, sizeof b) == 0) now = get<T>(t, i.c); break;
      default:
        if constexpr (std::is_integral_v<T>) {
          if (i.mode == 5) now = old & b;
          if (i.mode == 6) now = old | b;
          if (i.mode == 7) now = old ^ b;
          if (i.mode == 8) now = old >= b ? 0 : old + 1;
          if (i.mode == 9) now = old == 0 || old > b ? b : old - 1;
        }
    }
    std::memcpy(p, &now, sizeof now);
    if (i.d) put<T>(t, i.d, old);
    return true;
  }
};

// Control.
bool op_bra(thread& t, inst const& i) { t.pc = t.calls.back().f->code.data() + i.imm; return true; }
bool op_brx(thread& t, inst const& i) {
  auto const k = get<uint32_t>(t, i.a);
  if (k >= i.more.size()) throw fault("brx.idx beyond its targets");
  t.pc = t.calls.back().f->code.data() + i.more[k];
  return true;
}
bool op_ret(thread& t, inst const& i) {
  auto& a = t.calls.back();
  if (a.call && !a.call->more.empty()) {
    auto& f = *a.f;
    auto& caller = t.calls[t.calls.size() - 2];
    for (std::size_t k = 0; k < f.returns.size(); ++k)
      std::memcpy(reinterpret_cast<void*>(caller.frame[a.call->more[k]]), reinterpret_cast<unsigned char*>(a.params.get()) + f.returns[k].offset, f.returns[k].size);
  }
  leave(t);
  static_cast<void>(i);
  return t.state == doing::running;
}
bool op_exit(thread& t, inst const&) { while (!t.calls.empty()) leave(t); t.state = doing::ended; return false; }
bool op_trap(thread&, inst const&) { throw fault("trap"); }
bool op_nop(thread&, inst const&) { return true; }
bool op_fence(thread& t, inst const&) { t.fenced = t.in->epoch; return true; }
bool op_unknown(thread&, inst const& i) { throw fault("this emulator lacks '" + i.text + "'"); }
bool op_call(thread& t, inst const& i) {
  auto& f = *i.callee;
  auto const caller = t.r;
  auto const back = t.pc;
  enter(t, f, nullptr);
  auto& a = t.calls.back();
  a.back = back, a.call = &i;
  auto const r = f.returns.size();
  for (std::size_t k = 0; k < f.params.size(); ++k)
    std::memcpy(reinterpret_cast<unsigned char*>(a.params.get()) + f.params[k].offset, reinterpret_cast<void*>(caller[i.more[r + k]]), f.params[k].size);
  return true;
}
bool op_bar(thread& t, inst const& i) { return wait_at_barrier(t, i, get<uint32_t>(t, i.a), i.b ? get<uint32_t>(t, i.b) : 0); }
bool op_warp(thread& t, inst const& i) { return wait_for_warp(t, i, get<uint32_t>(t, i.e)); }
bool op_activemask(thread& t, inst const& i) { put<uint32_t>(t, i.d, 1u << t.lane); return true; }
bool op_clock(thread& t, inst const& i) { t.r[i.d] = t.in->of->instructions; return true; }

bool op_pack(thread& t, inst const& i) {  // mov.b64 d, {a, b}: mode bits each
  uint64_t v = 0;
  for (std::size_t k = 0; k < i.more.size(); ++k)
    v |= (t.r[i.more[k]] & (i.mode == 64 ? ~uint64_t{0} : (uint64_t{1} << i.mode) - 1)) << (i.mode * k);
  t.r[i.d] = v;
  return true;
}
bool op_unpack(thread& t, inst const& i) {
  auto const v = t.r[i.a];
  for (std::size_t k = 0; k < i.more.size(); ++k)
    if (i.more[k]) t.r[i.more[k]] = v >> (i.mode * k) & ((uint64_t{1} << i.mode) - 1);
  return true;
}
bool op_prmt(thread& t, inst const& i) {
  uint64_t const from = uint64_t(get<uint32_t>(t, i.a)) | uint64_t(get<uint32_t>(t, i.b)) << 32;
  auto const c = get<uint32_t>(t, i.c);
  uint32_t r = 0;
  for (unsigned k = 0; k < 4; ++k) {
    auto const s = c >> (4 * k) & 15;
    auto byte = from >> (8 * (s & 7)) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    r |= uint32_t(byte) << (8 * k);
  }
  put<uint32_t>(t, i.d, r);
  return true;
}
bool op_lop3(thread& t, inst const& i) {
  auto const a = get<uint32_t>(t, i.a), b = get<uint32_t>(t, i.b), c = get<uint32_t>(t, i.c);
  auto const lut = t.r[i.e];
  uint32_t r = 0;
  for (unsigned k = 0; k < 8; ++k)
    if (lut >> k & 1) r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  put<uint32_t>(t, i.d, r);
  return true;
}
bool op_bmsk(thread& t, inst const& i) {  // mode: 1 wrap
  auto at = get<uint32_t>(t, i.a), n = get<uint32_t>(t, i.b);
  if (i.mode) at &= 31, n &= 31;
  auto const ones = n >= 32 ? 0xffffffffu : (1u << n) - 1;
  put<uint32_t>(t, i.d, at >= 32 ? 0 : ones << at);
  return true;
}
bool op_shf(thread& t, inst const& i) {  // mode: 1 right, 2 clamp
  uint64_t const v = uint64_t(get<uint32_t>(t, i.b)) << 32 | get<uint32_t>(t, i.a);
  auto n = get<uint32_t>(t, i.c);
  n = i.mode & 2 ? (n > 32 ? 32 : n) : n & 31;
  put<uint32_t>(t, i.d, i.mode & 1 ? uint32_t(v >> n) : uint32_t(v << n >> 32));
  return true;
}
bool op_pred2(thread& t, inst const& i) {  // and, or, xor of predicates
  bool const a = t.r[i.a] & 1, b = t.r[i.b] & 1;
  t.r[i.d] = i.mode == 0 ? a && b : i.mode == 1 ? a || b : a != b;
  return true;
}
bool op_prednot(thread& t, inst const& i) { t.r[i.d] = !(t.r[i.a] & 1); return true; }
bool op_predmov(thread& t, inst const& i) { t.r[i.d] = t.r[i.a] & 1; return true; }
bool op_isspacep(thread& t, inst const& i) {
  auto const a = t.r[i.a];
  auto const o = a - reinterpret_cast<uint64_t>(t.in->shared);
  bool const s = o < t.in->shared_bytes;
  bool const in_heap = t.in->of->memory->spans(a, 1) || t.in->of->pinned->spans(a, 1);
  t.r[i.d] = i.where == space::shared ? s : i.where == space::global ? in_heap : !s && !in_heap;
  return true;
}
template <class T, int K> struct approx {
  static bool run(thread& t, inst const& i) {
    auto const a = get<T>(t, i.a);
    put<T>(t, i.d, K == 0 ? std::sin(a) : K == 1 ? std::cos(a) : K == 2 ? std::log2(a) : K == 3 ? std::exp2(a) : K == 4 ? 1 / std::sqrt(a) : std::tanh(a));
    return true;
  }
};

template <template <class> class Op> handler of_int(std::string const& s) {
  if (s == "b8" || s == "u8") return Op<uint8_t>::run;
  if (s == "s8") return Op<int8_t>::run;
  if (s == "b16" || s == "u16") return Op<uint16_t>::run;
  if (s == "s16") return Op<int16_t>::run;
  if (s == "b32" || s == "u32") return Op<uint32_t>::run;
  if (s == "s32") return Op<int32_t>::run;
  if (s == "b64" || s == "u64") return Op<uint64_t>::run;
  if (s == "s64") return Op<int64_t>::run;
  return nullptr;
}
template <template <class> class Op> handler of_float(std::string const& s) {
  if (s == "f32") return Op<float>::run;
  if (s == "f64") return Op<double>::run;
  return nullptr;
}
template <template <class> class Op> handler of_any(std::string const& s) {
  auto const h = of_int<Op>(s);
  return h ? h : of_float<Op>(s);
}
template <template <class> class Op> handler of_wide(std::string const& s) {
  if (s == "u16") return Op<uint16_t>::run;
  if (s == "s16") return Op<int16_t>::run;
  if (s == "u32") return Op<uint32_t>::run;
  if (s == "s32") return Op<int32_t>::run;
  return nullptr;
}
template <template <class> class Op> handler of_hi(std::string const& s) {
  auto const h = of_wide<Op>(s);
  if (h) return h;
  if (s == "u64") return Op<uint64_t>::run;
  if (s == "s64") return Op<int64_t>::run;
  return nullptr;
}
template <template <class> class Op> handler of_float_rounded(std::string const& s, unsigned mode) {
  if (mode == 0) return of_float<Op>(s);
  if (s == "f32") return rounded<float, Op<float>>;
  if (s == "f64") return rounded<double, Op<double>>;
  return nullptr;
}

template <class D> handler cvt_from(std::string const& s) {
  if (s == "u8" || s == "b8") return op_cvt<D, uint8_t>::run;
  if (s == "s8") return op_cvt<D, int8_t>::run;
  if (s == "u16" || s == "b16") return op_cvt<D, uint16_t>::run;
  if (s == "s16") return op_cvt<D, int16_t>::run;
  if (s == "u32" || s == "b32") return op_cvt<D, uint32_t>::run;
  if (s == "s32") return op_cvt<D, int32_t>::run;
  if (s == "u64" || s == "b64") return op_cvt<D, uint64_t>::run;
  if (s == "s64") return op_cvt<D, int64_t>::run;
  if (s == "f32") return op_cvt<D, float>::run;
  if (s == "f64") return op_cvt<D, double>::run;
  if (s == "f16") return op_cvt<D, f16>::run;
  if (s == "bf16") return op_cvt<D, bf16>::run;
  return nullptr;
}
handler cvt_of(std::string const& d, std::string const& s) {
  auto const is_f = [](std::string const& x) { return x[0] == 'f' || x == "bf16"; };
  if (d == "u8" || d == "b8") return cvt_from<uint8_t>(s);
  if (d == "s8") return cvt_from<int8_t>(s);
  if (d == "u16" || d == "b16") return cvt_from<uint16_t>(s);
  if (d == "s16") return cvt_from<int16_t>(s);
  if (d == "u32" || d == "b32") return cvt_from<uint32_t>(s);
  if (d == "s32") return cvt_from<int32_t>(s);
  if (d == "u64" || d == "b64") return cvt_from<uint64_t>(s);
  if (d == "s64") return cvt_from<int64_t>(s);
  if (d == "f32") return cvt_from<float>(s);
  if (d == "f64") return cvt_from<double>(s);
  if (d == "f16" && is_f(s)) return s == "f32" ? op_cvt<f16, float>::run : s == "f64" ? op_cvt<f16, double>::run : nullptr;
  if (d == "bf16" && is_f(s)) return s == "f32" ? op_cvt<bf16, float>::run : nullptr;
  return nullptr;
}

struct operand {
  char kind = 'r';  // r: slot, v: vector, m: memory, l: label
  uint32_t slot = 0, second = 0;
  std::vector<uint32_t> slots;
  int64_t offset = 0;
  bool negated = false;
  std::string name;
};

std::map<std::string, special> const specials = {
    {"%tid.x", special::tid_x}, {"%tid.y", special::tid_y}, {"%tid.z", special::tid_z}, {"%ntid.x", special::ntid_x},
    {"%ntid.y", special::ntid_y}, {"%ntid.z", special::ntid_z}, {"%ctaid.x", special::ctaid_x},
    {"%ctaid.y", special::ctaid_y}, {"%ctaid.z", special::ctaid_z}, {"%nctaid.x", special::nctaid_x},
    {"%nctaid.y", special::nctaid_y}, {"%nctaid.z", special::nctaid_z}, {"%laneid", special::laneid},
    {"%warpid", special::warpid}, {"%nwarpid", special::nwarpid}, {"%smid", special::smid}, {"%nsmid", special::nsmid},
    {"%gridid", special::gridid}, {"%lanemask_eq", special::lanemask_eq}, {"%lanemask_lt", special::lanemask_lt},
    {"%lanemask_le", special::lanemask_le}, {"%lanemask_gt", special::lanemask_gt},
    {"%lanemask_ge", special::lanemask_ge}, {"%dynamic_smem_size", special::dynamic_smem_size},
    {"%total_smem_size", special::total_smem_size}};

class decoder {
 public:
  explicit decoder(function& f) : f_(f), p_(f.body.c_str()), line_(f.body_line) {
    f_.frame.assign(1, 0);  // slot 0 is nowhere
    scopes_.emplace_back();
    for (auto const& p : f.returns) declare(p.name, f.entry ? 'k' : 'p', p.offset);
    for (auto const& p : f.params) declare(p.name, f.entry ? 'k' : 'p', p.offset);
    if (f.entry) f.param_bytes = 0;
  }

  void run() {
    for (;;) {
      auto start = (skip(), p_);
      auto t = next();
      if (t.empty()) break;
      if (t == "{") { scopes_.emplace_back(); continue; }
      if (t == "}") { scopes_.pop_back(); continue; }
      if (t == ";") continue;
      if ((skip(), *p_) == ':' && p_[1] != ':') {
        next();
        auto const label = t;
        labels_[label] = f_.code.size();
        auto const keep = p_;
        auto const keep_line = line_;
        if (next() == ".branchtargets") {
          for (t = next(); t != ";"; t = next())
            if (t != ",") tables_[label].push_back(t);
        } else {
          p_ = keep, line_ = keep_line;
        }
        continue;
      }
      if (t == ".reg") { registers(); continue; }
      if (t == ".local" || t == ".shared" || t == ".param") { variable_of(t); continue; }
      if (t == ".loc" || t == ".file") { while (*p_ && *p_ != '\n') ++p_; continue; }
      if (t == ".pragma" || t == ".callprototype") { while (next() != ";") {} continue; }
      instruction(t, start);
    }
    f_.code.emplace_back();
    auto& last = f_.code.back();
    last.run = op_ret, last.text = "(end)";
    for (auto& [at, name] : jumps_) {
      if (!labels_.count(name)) throw fault("no label " + name);
      f_.code[at].imm = static_cast<int64_t>(labels_[name]);
    }
    for (auto& [at, name] : table_jumps_)
      for (auto const& l : tables_[name]) f_.code[at].more.push_back(static_cast<uint32_t>(labels_[l]));
    if (opt.fuse) fuse();
  }

 private:
  struct scope {
    std::map<std::string, uint32_t> slots;
    std::set<std::string> prefixes;
  };
  function& f_;
  char const* p_;
  std::size_t line_;
  std::vector<scope> scopes_;
  std::map<uint64_t, uint32_t> constants_;
  std::map<std::string, std::size_t> labels_;
  std::map<std::string, std::vector<std::string>> tables_;
  std::vector<std::pair<std::size_t, std::string>> jumps_, table_jumps_;

  void skip() {
    for (;;) {
      if (*p_ == '\n') ++line_, ++p_;
      else if (*p_ == ' ' || *p_ == '\t' || *p_ == '\r') ++p_;
      else if (p_[0] == '/' && p_[1] == '/') while (*p_ && *p_ != '\n') ++p_;
      else if (p_[0] == '/' && p_[1] == '*') { while (*p_ && !(p_[0] == '*' && p_[1] == '/')) ++p_; p_ += 2; }
      else return;
    }
  }
  static bool wordy(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.'; }
  std::string next() {
    skip();
    if (!*p_) return {};
    auto const* const b = p_;
    if (*p_ == '"') { ++p_; while (*p_ != '"') ++p_; ++p_; return {b, p_}; }
    if (wordy(*p_)) { while (wordy(*p_) || (p_[0] == ':' && p_[1] == ':')) p_ += *p_ == ':' ? 2 : 1; return {b, p_}; }
    ++p_;
    return {b, p_};
  }
  std::string peek() { auto const p = p_; auto const l = line_; auto const t = next(); p_ = p, line_ = l; return t; }

  uint32_t fresh(uint64_t v = 0xbad0bad1bad2bad3u) { f_.frame.push_back(v); return static_cast<uint32_t>(f_.frame.size() - 1); }
  uint32_t constant(uint64_t v) {
    auto const [at, is_new] = constants_.try_emplace(v, 0);
    if (is_new) at->second = fresh(v);
    return at->second;
  }
  void declare(std::string const& name, char kind, uint64_t offset) {
    auto const slot = fresh();
    scopes_.back().slots[name] = slot;
    f_.addresses.push_back({slot, kind, offset});
  }
  static uint64_t bytes_of(std::string const& type) {
    auto const i = type.find_first_of("0123456789");
    return i == std::string::npos ? 1 : std::strtoull(type.c_str() + i, nullptr, 10) / 8;
  }
  void registers() {
    auto t = next();
    if (t == ".v2" || t == ".v4") t = next();
    do {
      auto const name = next();
      if (peek() == "<") {
        next(), next(), next();
        scopes_.back().prefixes.insert(name);
      } else scopes_.back().slots[name] = fresh();
      t = next();
    } while (t == ",");
  }
  void variable_of(std::string const& where) {
    uint64_t align = 1, count = 1;
    std::string type, t = next();
    for (; t[0] == '.'; t = next()) {
      if (t == ".align") align = std::stoull(next());
      else type = t;
    }
    auto const name = t;
    while (peek() == "[") { next(); auto const n = next(); if (n == "]") { count = 0; continue; } count *= std::stoull(n); next(); }
    while (next() != ";") {}
    auto const n = bytes_of(type) * count;
    align = std::max(align, bytes_of(type));
    auto& total = where == ".local" ? f_.local_bytes : where == ".shared" ? f_.shared_bytes : f_.param_bytes;
    total = (total + align - 1) / align * align;
    declare(name, where == ".local" ? 'l' : where == ".shared" ? 's' : 'p', total);
    total += n;
  }

  uint32_t find(std::string const& name, bool must = true) {
    for (auto s = scopes_.rbegin(); s != scopes_.rend(); ++s) {
      auto const at = s->slots.find(name);
      if (at != s->slots.end()) return at->second;
      auto const digits = name.find_last_not_of("0123456789") + 1;
      if (digits < name.size() && s->prefixes.count(name.substr(0, digits))) return s->slots[name] = fresh();
    }
    if (name == "_") return 0;
    if (name == "WARP_SZ") return constant(32);
    if (auto const at = specials.find(name); at != specials.end()) {
      auto const slot = fresh();
      f_.specials.emplace_back(slot, at->second);
      return scopes_.front().slots[name] = slot;
    }
    if (auto const at = f_.owner->variables.find(name); at != f_.owner->variables.end()) {
      auto& v = at->second;
      auto const slot = fresh(v.address);
      if (v.kind == 's') {
        auto [where, is_new] = f_.shared_offsets.try_emplace(name, 0);
        if (is_new) {
          f_.shared_bytes = (f_.shared_bytes + v.align - 1) / v.align * v.align;
          where->second = f_.shared_bytes;
          f_.shared_bytes += v.size;
        }
        f_.addresses.push_back({slot, 's', where->second});
      } else if (v.kind == 'x') f_.addresses.push_back({slot, 'x', 0});
      return scopes_.front().slots[name] = slot;
    }
    if (must) throw fault("PTX: unknown name " + name + " at line " + std::to_string(line_));
    return 0;
  }

  static bool number(std::string const& t, uint64_t& v, std::string const& type) {
    if (!std::isdigit(static_cast<unsigned char>(t[0]))) return false;
    if (t.size() > 2 && t[0] == '0' && (t[1] == 'f' || t[1] == 'F')) {
      v = std::strtoull(t.c_str() + 2, nullptr, 16);
      if (type == "f64") { float f; auto const u = static_cast<uint32_t>(v); std::memcpy(&f, &u, 4); auto const d = static_cast<double>(f); std::memcpy(&v, &d, 8); }
    } else if (t.size() > 2 && t[0] == '0' && (t[1] == 'd' || t[1] == 'D')) {
      v = std::strtoull(t.c_str() + 2, nullptr, 16);
      if (type == "f32") { double d; std::memcpy(&d, &v, 8); auto const f = static_cast<float>(d); uint32_t u; std::memcpy(&u, &f, 4); v = u; }
    } else if (t.find('.') != std::string::npos) {
      auto const d = std::strtod(t.c_str(), nullptr);
      if (type == "f32") { auto const f = static_cast<float>(d); uint32_t u; std::memcpy(&u, &f, 4); v = u; } else std::memcpy(&v, &d, 8);
    } else v = std::strtoull(t.c_str(), nullptr, 0);
    return true;
  }

  operand read_operand(std::string const& type) {
    operand o;
    auto t = next();
    if (t == "[") {
      o.kind = 'm';
      t = next();
      uint64_t v;
      if (number(t, v, "u64")) o.slot = constant(v);
      else o.slot = find(t);
      t = next();
      while (t == "+" || t == "-") {
        int64_t sign = t == "-" ? -1 : 1;
        t = next();
        if (t == "-") sign = -sign, t = next();
        o.offset += sign * static_cast<int64_t>(std::strtoull(t.c_str(), nullptr, 0));
        t = next();
      }
      if (t != "]") throw fault("PTX: address at line " + std::to_string(line_));
      return o;
    }
    if (t == "{") {
      o.kind = 'v';
      for (t = next(); t != "}"; t = next()) if (t != ",") {
        uint64_t v;
        if (t == "-") { number(next(), v, type); o.slots.push_back(constant(-v)); }
        else o.slots.push_back(number(t, v, type) ? constant(v) : find(t));
      }
      return o;
    }
    if (t == "(") {
      o.kind = 'c';
      for (t = next(); t != ")"; t = next()) if (t != ",") o.slots.push_back(find(t));
      return o;
    }
    if (t == "!") o.negated = true, t = next();
    bool minus = t == "-";
    if (minus) t = next();
    uint64_t v;
    o.name = t;
    if (number(t, v, type)) {
      if (minus) {
        if (type == "f32" ) v ^= 0x80000000u; else if (type == "f64") v ^= uint64_t{1} << 63; else v = -v;
      }
      o.slot = constant(v);
      return o;
    }
    o.slot = find(t, false);
    if (peek() == "|") { next(); o.second = find(next()); }
    return o;
  }

  void instruction(std::string t, char const* start) {
    inst i;
    i.line = static_cast<uint32_t>(line_);
    if (t == "@") {
      t = next();
      if (t == "!") i.negated = true, t = next();
      i.pred = static_cast<int32_t>(find(t));
      t = next();
    }
    std::vector<std::string> m;
    for (std::size_t b = 0; b <= t.size();) {
      auto e = t.find('.', b);
      if (e == std::string::npos) e = t.size();
      m.push_back(t.substr(b, e - b));
      b = e + 1;
    }
    auto const base = m[0];
    auto const has = [&](char const* w) { for (std::size_t k = 1; k < m.size(); ++k) if (m[k] == w) return true; return false; };
    auto const type = m.back();
    std::vector<operand> o;
    if ((base == "call")) return call(i, start);
    while (peek() != ";") {
      if (peek() == ",") { next(); continue; }
      o.push_back(read_operand(base == "cvt" || base == "setp" ? type : type));
    }
    auto const end = p_;
    next();
    i.text.assign(start, end);
    for (auto& c : i.text) if (c == '\n' || c == '\t') c = ' ';
    auto const n = o.size();
    if (n > 0) i.d = o[0].slot, i.d2 = o[0].second;
    if (n > 1) i.a = o[1].slot;
    if (n > 2) i.b = o[2].slot;
    if (n > 3) i.c = o[3].slot;
    if (n > 4) i.e = o[4].slot;
    unsigned const round = has("rz") ? 1 : has("rm") ? 2 : has("rp") ? 3 : 0;
    auto const is_f = type[0] == 'f';
    i.mode = static_cast<uint8_t>(round);
    if (has("shared") || has("shared::cta")) i.where = space::shared;
    if (has("global")) i.where = space::global;
    if (has("local")) i.where = space::local;
    if (has("const")) i.where = space::global;
    if (has("param") || has("param::entry") || has("param::func")) i.where = space::param;
    i.run = nullptr;

    auto const lacks = [&] {
      for (auto const* w : {"ftz", "cc", "NaN", "xorsign", "relu", "satfinite", "pack", "rna", "rs", "b128", "v8", "noftz", "cluster"})
        if (has(w)) return true;
      return (has("sat") && base != "cvt") || base == "addc" || base == "subc" || base == "madc" || (base == "redux" && is_f);
    };
    if (lacks()) { /* not here */ }
    else if (base == "add") i.run = is_f ? of_float_rounded<op_add>(type, round) : of_int<op_add>(type);
    else if (base == "sub") i.run = is_f ? of_float_rounded<op_sub>(type, round) : of_int<op_sub>(type);
    else if (base == "mul") i.run = is_f ? of_float_rounded<op_mul>(type, round) : has("wide") ? of_wide<op_mulwide>(type) : has("hi") ? of_hi<op_mulhi>(type) : of_int<op_mul>(type);
    else if (base == "mad" && !is_f) i.run = has("wide") ? of_wide<op_madwide>(type) : has("hi") ? of_hi<op_madhi>(type) : of_int<op_mad>(type);
    else if (base == "fma" || base == "mad") i.run = of_float_rounded<op_fma>(type, round);
    else if (base == "div") i.run = is_f ? of_float_rounded<op_div>(type, round) : of_int<op_div>(type);
    else if (base == "rem") i.run = of_int<op_rem>(type);
    else if (base == "min") i.run = of_any<op_min>(type);
    else if (base == "max") i.run = of_any<op_max>(type);
    else if (base == "neg") i.run = of_any<op_neg>(type);
    else if (base == "abs") i.run = of_any<op_abs>(type);
    else if (base == "rcp") i.run = of_float_rounded<op_rcp>(type, round);
    else if (base == "sqrt") i.run = of_float_rounded<op_sqrt>(type, round);
    else if ((base == "and" || base == "or" || base == "xor") && type == "pred") i.run = op_pred2, i.mode = base == "and" ? 0 : base == "or" ? 1 : 2;
    else if (base == "not" && type == "pred") i.run = op_prednot;
    else if (base == "mov" && type == "pred") i.run = op_predmov;
    else if (base == "and") i.run = of_int<op_and>(type);
    else if (base == "or") i.run = of_int<op_or>(type);
    else if (base == "xor") i.run = of_int<op_xor>(type);
    else if (base == "not") i.run = of_int<op_not>(type);
    else if (base == "shl") i.run = of_int<op_shl>(type);
    else if (base == "shr") i.run = of_int<op_shr>(type);
    else if (base == "selp") i.run = of_any<op_selp>(type);
    else if (base == "popc") i.run = type == "b32" ? op_popc<uint32_t>::run : op_popc<uint64_t>::run;
    else if (base == "clz") i.run = type == "b32" ? op_clz<uint32_t>::run : op_clz<uint64_t>::run;
    else if (base == "brev") i.run = type == "b32" ? op_brev<uint32_t>::run : op_brev<uint64_t>::run;
    else if (base == "bfind") i.mode = has("shiftamt"), i.run = of_hi<op_bfind>(type);
    else if (base == "bfi") i.run = type == "b32" ? op_bfi<uint32_t>::run : op_bfi<uint64_t>::run;
    else if (base == "bfe") i.run = of_hi<op_bfe>(type);
    else if (base == "prmt" && m.size() == 2) i.run = op_prmt;
    else if (base == "lop3") i.run = op_lop3;
    else if (base == "bmsk") i.run = op_bmsk, i.mode = has("wrap");
    else if (base == "shf") i.run = op_shf, i.mode = static_cast<uint8_t>((has("r") ? 1 : 0) | (has("clamp") ? 2 : 0));
    else if (base == "sin") i.run = approx<float, 0>::run;
    else if (base == "cos") i.run = approx<float, 1>::run;
    else if (base == "lg2") i.run = approx<float, 2>::run;
    else if (base == "ex2") i.run = approx<float, 3>::run;
    else if (base == "rsqrt") i.run = type == "f32" ? approx<float, 4>::run : approx<double, 4>::run;
    else if (base == "setp") {
      static std::map<std::string, unsigned> const how = {{"eq", 0}, {"ne", 1}, {"lt", 2}, {"lo", 2}, {"le", 3}, {"ls", 3}, {"gt", 4}, {"hi", 4}, {"ge", 5}, {"hs", 5}, {"equ", 6}, {"neu", 7}, {"ltu", 8}, {"leu", 9}, {"gtu", 10}, {"geu", 11}, {"num", 12}, {"nan", 13}};
      auto const at = how.find(m[1]);
      if (at != how.end()) {
        i.mode = static_cast<uint8_t>(at->second | (m.size() > 3 ? (m[2] == "and" ? 1 : m[2] == "or" ? 2 : 3) : 0) << 4);
        if (n > 3) i.imm = o[3].negated;
        i.run = of_any<op_setp>(type);
      }
    } else if (base == "cvt" && m.size() >= 3) {
      auto const& d = m[m.size() - 2];
      i.mode = has("rni") ? 4 : has("rzi") ? 5 : has("rmi") ? 6 : has("rpi") ? 7 : static_cast<uint8_t>(round);
      i.imm = has("sat");
      i.run = cvt_of(d, type);
    } else if (base == "cvta") i.run = op_mov<uint64_t>::run;
    else if (base == "mov") {
      auto const width = bytes_of(type) * 8;
      if (n == 2 && o[1].kind == 'v') i.run = op_pack, i.more = o[1].slots, i.mode = static_cast<uint8_t>(width / o[1].slots.size());
      else if (n == 2 && o[0].kind == 'v') i.run = op_unpack, i.more = o[0].slots, i.mode = static_cast<uint8_t>(width / o[0].slots.size());
      else if (o[1].name == "%clock" || o[1].name == "%clock64" || o[1].name == "%globaltimer") i.run = op_clock;
      else if (i.a == 0) i.run = nullptr;
      else i.run = type == "f32" ? op_mov<uint32_t>::run : type == "f64" ? op_mov<uint64_t>::run : of_int<op_mov>(type);
    } else if (base == "ld" || base == "ldu") {
      i.a = o[1].slot, i.imm = o[1].offset;
      if (o[0].kind == 'v') i.vec = static_cast<uint8_t>(o[0].slots.size()), i.more = o[0].slots;
      i.run = of_any<op_ld>(type);
    } else if (base == "st") {
      i.a = o[0].slot, i.imm = o[0].offset, i.b = o[1].slot;
      if (o[1].kind == 'v') i.vec = static_cast<uint8_t>(o[1].slots.size()), i.more = o[1].slots;
      i.run = of_any<op_st>(type);
    } else if (base == "atom" || base == "red") {
      auto const k = base == "atom" ? 1u : 0u;
      if (k == 0) i.d = 0;
      i.a = o[k].slot, i.imm = o[k].offset, i.b = o[k + 1].slot;
      if (n > k + 2) i.c = o[k + 2].slot;
      static std::map<std::string, uint8_t> const ops = {{"add", 0}, {"min", 1}, {"max", 2}, {"exch", 3}, {"cas", 4}, {"and", 5}, {"or", 6}, {"xor", 7}, {"inc", 8}, {"dec", 9}};
      for (auto const& w : m) if (ops.count(w)) i.mode = ops.at(w), i.run = of_any<op_atom>(type);
    } else if (base == "bra") {
      jumps_.emplace_back(f_.code.size(), o[0].name);
      i.run = op_bra;
    } else if (base == "brx") {
      i.a = o[0].slot;
      table_jumps_.emplace_back(f_.code.size(), o[1].name);
      i.run = op_brx;
    } else if (base == "ret") i.run = op_ret;
    else if (base == "exit") i.run = op_exit;
    else if (base == "trap" || base == "brkpt") i.run = op_trap;
    else if (base == "membar" || base == "fence") i.run = op_fence;
    else if (base == "prefetch" || base == "prefetchu" || base == "nanosleep" || base == "pmevent" || base == "discard" || base == "applypriority") i.run = op_nop;
    else if ((base == "bar" || base == "barrier") && has("warp")) i.run = op_warp, i.e = o[0].slot, i.mode = 0;
    else if ((base == "bar" || base == "barrier") && has("sync")) { i.run = op_bar, i.a = o[0].slot, i.b = n > 1 ? o[1].slot : 0, i.mode = 0; }
    else if ((base == "bar" || base == "barrier") && has("red")) {
      i.run = op_bar, i.mode = has("popc") ? 1 : has("and") ? 2 : 3;
      i.d = o[0].slot, i.a = o[1].slot, i.b = n > 3 ? o[2].slot : 0, i.c = o[n - 1].slot, i.imm = o[n - 1].negated;
    } else if (base == "shfl" && has("sync")) {
      i.run = op_warp;
      i.mode = has("up") ? 1 : has("down") ? 2 : has("bfly") ? 3 : 4;
      i.b = o[2].slot, i.c = o[3].slot, i.e = o[4].slot;
    } else if (base == "vote" && has("sync")) {
      i.run = op_warp, i.mode = has("all") ? 5 : has("any") ? 6 : has("uni") ? 7 : 8;
      i.imm = o[1].negated, i.e = o[2].slot;
    } else if (base == "match" && has("sync")) {
      i.run = op_warp, i.mode = has("any") ? 9 : 10, i.e = o[2].slot, i.vec = type == "b64" ? 2 : 1;
    } else if (base == "redux" && has("sync")) {
      i.run = op_warp, i.e = o[2].slot;
      i.mode = has("add") ? 11 : has("min") ? (type == "s32" ? 12 : 13) : has("max") ? (type == "s32" ? 14 : 15) : has("and") ? 16 : has("or") ? 17 : 18;
    } else if (base == "activemask") i.run = op_activemask;
    else if (base == "isspacep") i.run = op_isspacep;
    if (!i.run) i.run = op_unknown;
    f_.code.push_back(std::move(i));
  }

  void call(inst i, char const* start) {
    std::vector<operand> o;
    while (peek() != ";") {
      if (peek() == ",") { next(); continue; }
      if (peek() == "(") { o.push_back(read_operand("b64")); continue; }
      operand x;
      x.kind = 'n', x.name = next();
      o.push_back(x);
    }
    i.text.assign(start, p_);
    next();
    auto name = std::string();
    std::vector<uint32_t> results, arguments;
    for (auto& x : o) {
      if (x.kind == 'n' && name.empty()) name = x.name;
      else if (x.kind == 'c' && name.empty()) results = x.slots;
      else if (x.kind == 'c') arguments = x.slots;
    }
    auto const at = f_.owner->functions.find(name);
    if (at == f_.owner->functions.end() || at->second->body.empty()) i.run = op_unknown;
    else {
      i.run = op_call, i.callee = at->second.get();
      i.more = results;
      i.more.insert(i.more.end(), arguments.begin(), arguments.end());
    }
    f_.code.push_back(std::move(i));
  }

  /// mul and add, or sub, that say no rounding become what ptxas may make of them.
  void fuse() {
    std::map<uint32_t, std::vector<std::size_t>> made;
    for (std::size_t k = 0; k < f_.code.size(); ++k)
      if (f_.code[k].d) made[f_.code[k].d].push_back(k);
    auto const once = [&](uint32_t slot) { auto const at = made.find(slot); return at == made.end() || at->second.size() == 1; };
    auto const product = [&](uint32_t slot, char const* type) -> inst const* {
      auto const at = made.find(slot);
      if (at == made.end() || at->second.size() != 1) return nullptr;
      auto const& i = f_.code[at->second[0]];
      return i.text.rfind(std::string("mul.") + type, 0) == 0 && i.pred < 0 && once(i.a) && once(i.b) ? &i : nullptr;
    };
    for (auto& i : f_.code)
      for (auto const* type : {"f32", "f64"}) {
        auto const add = i.text.rfind(std::string("add.") + type, 0) == 0, sub = i.text.rfind(std::string("sub.") + type, 0) == 0;
        if (!add && !sub) continue;
        auto const a = i.a, b = i.b;
        if (auto const* p = product(a, type)) i.a = p->a, i.b = p->b, i.c = b, i.mode = add ? 0 : 1 << 4;
        else if (auto const* q = product(b, type)) i.a = q->a, i.b = q->b, i.c = a, i.mode = add ? 0 : 2 << 4;
        else continue;
        i.run = of_float<op_fma>(type);
        ++fused;
      }
  }

 public:
  static inline std::uint64_t fused = 0;
};

}  // namespace

void decode(function& f) {
  if (f.decoded) return;
  if (f.body.empty()) throw fault("no body of " + f.name);
  f.decoded = true;
  decoder(f).run();
}

std::uint64_t fused_operations() { return decoder::fused; }

void run_warp_op(block& b, unsigned warp, std::uint32_t mask, inst const& i) {
  auto const base = warp * 32;
  auto const lanes = [&](auto&& f) { for (unsigned l = 0; l < 32; ++l) if (mask >> l & 1) f(l, b.threads[base + l]); };
  auto const m = i.mode;
  if (m == 0) return;  // bar.warp.sync
  if (m <= 4) {
    std::uint32_t from[32] = {}, got[32] = {};
    bool valid[32] = {};
    lanes([&](unsigned l, thread& t) { from[l] = get<uint32_t>(t, i.a); });
    lanes([&](unsigned l, thread& t) {
      auto const n = get<uint32_t>(t, i.b) & 31, c = get<uint32_t>(t, i.c);
      auto const clamp = c & 31, seg = c >> 8 & 31;
      auto const max_lane = (l & seg) | (clamp & ~seg), min_lane = l & seg;
      int j = 0;
      bool p = false;
      if (m == 1) j = static_cast<int>(l) - static_cast<int>(n), p = j >= static_cast<int>(max_lane);
      if (m == 2) j = static_cast<int>(l + n), p = j <= static_cast<int>(max_lane);
      if (m == 3) j = static_cast<int>(l ^ n), p = j <= static_cast<int>(max_lane);
      if (m == 4) j = static_cast<int>(min_lane | (n & ~seg)), p = j <= static_cast<int>(max_lane);
      if (!p) j = static_cast<int>(l);
      if (!(mask >> j & 1)) throw fault("shfl reads lane " + std::to_string(j) + ", which its mask does not name");
      got[l] = from[j], valid[l] = p;
    });
    lanes([&](unsigned l, thread& t) {
      put<uint32_t>(t, i.d, got[l]);
      if (i.d2) t.r[i.d2] = valid[l];
    });
    return;
  }
  if (m <= 8) {
    std::uint32_t votes = 0;
    lanes([&](unsigned l, thread& t) { votes |= static_cast<uint32_t>((t.r[i.a] & 1) != static_cast<uint64_t>(i.imm)) << l; });
    lanes([&](unsigned, thread& t) {
      t.r[i.d] = m == 5 ? votes == mask : m == 6 ? votes != 0 : m == 7 ? votes == 0 || votes == mask : votes;
    });
    return;
  }
  if (m <= 10) {
    auto const value = [&](thread& t) { return i.vec == 2 ? get<uint64_t>(t, i.a) : get<uint32_t>(t, i.a); };
    std::uint32_t equal[32] = {};
    lanes([&](unsigned l, thread& t) { lanes([&](unsigned k, thread& o) { if (value(t) == value(o)) equal[l] |= 1u << k; }); });
    lanes([&](unsigned l, thread& t) {
      if (m == 9) t.r[i.d] = equal[l];
      else {
        t.r[i.d] = equal[l] == mask ? mask : 0;
        if (i.d2) t.r[i.d2] = equal[l] == mask;
      }
    });
    return;
  }
  bool first = true;
  std::uint32_t sum = 0;
  lanes([&](unsigned, thread& t) {
    auto const v = get<uint32_t>(t, i.a);
    if (first) sum = v, first = false;
    else if (m == 11) sum += v;
    else if (m == 12) sum = static_cast<uint32_t>(std::min(static_cast<int32_t>(sum), static_cast<int32_t>(v)));
    else if (m == 13) sum = std::min(sum, v);
    else if (m == 14) sum = static_cast<uint32_t>(std::max(static_cast<int32_t>(sum), static_cast<int32_t>(v)));
    else if (m == 15) sum = std::max(sum, v);
    else if (m == 16) sum &= v;
    else if (m == 17) sum |= v;
    else sum ^= v;
  });
  lanes([&](unsigned, thread& t) { put<uint32_t>(t, i.d, sum); });
}

}  // namespace emulator
