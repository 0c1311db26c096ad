// tests/emulator/ptx/bits.cpp — logic, shifts and fields of bits.
#include <algorithm>
#include <bit>

#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"

namespace emulator {

namespace {

using std::uint32_t, std::uint64_t;

template <class T>
constexpr unsigned width = 8 * sizeof(T);
template <class T>
std::make_unsigned_t<T> bits_of(T a) {
  return static_cast<std::make_unsigned_t<T>>(a);
}
/// n ones.
template <class T>
T ones(uint32_t n) {
  return static_cast<T>(n >= width<T> ? ~uint64_t{0} : (uint64_t{1} << n) - 1);
}

template <class T>
T both(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
T either(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
T one_of(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
T inverse(T a) {
  return static_cast<T>(~a);
}
template <class T>
using op_and = binary<T, both<T>>;
template <class T>
using op_or = binary<T, either<T>>;
template <class T>
using op_xor = binary<T, one_of<T>>;
template <class T>
using op_not = unary<T, inverse<T>>;

template <class T>
struct op_shl {
  static bool run(thread& t, instruction const& i) {
    auto const n = get<uint32_t>(t, i.b);
    put(t, i.d, static_cast<T>(n >= width<T> ? 0 : static_cast<uint64_t>(get<T>(t, i.a)) << n));
    return true;
  }
};
/// By the width or more: the sign everywhere.
template <class T>
struct op_shr {
  static bool run(thread& t, instruction const& i) {
    auto const n = get<uint32_t>(t, i.b);
    auto const a = get<T>(t, i.a);
    auto const sign = static_cast<T>(a < 0 ? -1 : 0);
    put(t, i.d, n >= width<T> ? sign : static_cast<T>(a >> n));
    return true;
  }
};

template <class T>
struct op_popc {
  static bool run(thread& t, instruction const& i) {
    put(t, i.d, static_cast<uint32_t>(std::popcount(get<T>(t, i.a))));
    return true;
  }
};
template <class T>
struct op_clz {
  static bool run(thread& t, instruction const& i) {
    put(t, i.d, static_cast<uint32_t>(std::countl_zero(get<T>(t, i.a))));
    return true;
  }
};
template <class T>
T reversed(T a) {
  T made = 0;
  for (unsigned k = 0; k < width<T>; ++k) made = static_cast<T>(made << 1 | (a >> k & 1));
  return made;
}
template <class T>
using op_brev = unary<T, reversed<T>>;

/// The place of the highest bit that is not the sign, or all ones; mode 1: how far to shift it to the top.
template <class T>
struct op_bfind {
  static bool run(thread& t, instruction const& i) {
    auto const a = get<T>(t, i.a);
    auto const zeros = static_cast<uint32_t>(std::countl_zero(bits_of(a < 0 ? static_cast<T>(~a) : a)));
    auto const none = zeros == width<T>;
    put(t, i.d, none ? ~uint32_t{0} : i.mode == 1 ? zeros : width<T> - 1 - zeros);
    return true;
  }
};
/// b with n bits of a put in at a place.
template <class T>
struct op_bfi {
  static bool run(thread& t, instruction const& i) {
    auto const at = get<uint32_t>(t, i.c) & 0xff, n = get<uint32_t>(t, i.e) & 0xff;
    auto const field = static_cast<T>(at >= width<T> ? 0 : static_cast<uint64_t>(ones<T>(n)) << at);
    auto const moved = static_cast<T>(at >= width<T> ? 0 : static_cast<uint64_t>(get<T>(t, i.a)) << at);
    put(t, i.d, static_cast<T>((get<T>(t, i.b) & ~field) | (moved & field)));
    return true;
  }
};
/// n bits of a from a place on; above them a signed type has the highest of those that a has.
template <class T>
struct op_bfe {
  static bool run(thread& t, instruction const& i) {
    auto const a = static_cast<uint64_t>(bits_of(get<T>(t, i.a)));
    auto const at = get<uint32_t>(t, i.b) & 0xff, n = get<uint32_t>(t, i.c) & 0xff;
    auto const taken = at >= width<T> ? 0 : a >> at & ones<uint64_t>(n);
    auto const top = std::min(at + n - 1, width<T> - 1);
    auto const sign = std::is_signed_v<T> && n > 0 && (a >> top & 1);
    auto const valid = at >= width<T> ? 0 : std::min(n, width<T> - at);
    put(t, i.d, static_cast<T>(sign ? taken | ~ones<uint64_t>(valid) : taken));
    return true;
  }
};

template <template <class> class Op>
handler of_unsigned(std::string const& type) {
  return type == "b32" ? Op<uint32_t>::run : type == "b64" ? Op<uint64_t>::run : nullptr;
}

/// Selects four bytes of eight by four bits each; the highest of the four bits takes the byte's sign instead.
bool run_prmt(thread& t, instruction const& i) {
  auto const from = get<uint32_t>(t, i.a) | uint64_t{get<uint32_t>(t, i.b)} << 32;
  auto const selection = get<uint32_t>(t, i.c);
  uint32_t made = 0;
  for (unsigned k = 0; k < 4; ++k) {
    auto const s = selection >> (4 * k) & 15;
    auto const byte = static_cast<uint32_t>(from >> (8 * (s & 7)) & 255);
    made |= (s & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * k);
  }
  put(t, i.d, made);
  return true;
}

/// Any function of three bits: e is its table.
bool run_lop3(thread& t, instruction const& i) {
  auto const a = get<uint32_t>(t, i.a), b = get<uint32_t>(t, i.b), c = get<uint32_t>(t, i.c);
  uint32_t made = 0;
  for (unsigned k = 0; k < 8; ++k)
    if (t.slots[i.e] >> k & 1) made |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  put(t, i.d, made);
  return true;
}

/// Ones from a place on; mode 1: both numbers modulo 32.
bool run_bmsk(thread& t, instruction const& i) {
  auto const limit = i.mode == 1 ? 31u : ~0u;
  auto const at = get<uint32_t>(t, i.a) & limit, n = get<uint32_t>(t, i.b) & limit;
  put(t, i.d, at >= 32 ? 0 : ones<uint32_t>(n) << at);
  return true;
}

/// Shifts two words and keeps one; mode: 1 right, 2 by at most 32 rather than modulo 32.
bool run_shf(thread& t, instruction const& i) {
  auto const words = uint64_t{get<uint32_t>(t, i.b)} << 32 | get<uint32_t>(t, i.a);
  auto const amount = get<uint32_t>(t, i.c);
  auto const n = i.mode & 2 ? std::min(amount, 32u) : amount & 31;
  put(t, i.d, static_cast<uint32_t>(i.mode & 1 ? words >> n : words << n >> 32));
  return true;
}

template <auto F>
bool run_predicates(thread& t, instruction const& i) {
  t.slots[i.d] = F(t.slots[i.a] & 1, t.slots[i.b] & 1);
  return true;
}
bool run_not_predicate(thread& t, instruction const& i) {
  t.slots[i.d] = ~t.slots[i.a] & 1;
  return true;
}

}  // namespace

void add_bits(opcode_table& table) {
  table["and"] = [](draft const& text, instruction&) {
    return text.type() == "pred" ? run_predicates<both<uint64_t>> : of_integer<op_and>(text.type());
  };
  table["or"] = [](draft const& text, instruction&) {
    return text.type() == "pred" ? run_predicates<either<uint64_t>> : of_integer<op_or>(text.type());
  };
  table["xor"] = [](draft const& text, instruction&) {
    return text.type() == "pred" ? run_predicates<one_of<uint64_t>> : of_integer<op_xor>(text.type());
  };
  table["not"] = [](draft const& text, instruction&) {
    return text.type() == "pred" ? run_not_predicate : of_integer<op_not>(text.type());
  };
  table["shl"] = [](draft const& text, instruction&) { return of_integer<op_shl>(text.type()); };
  table["shr"] = [](draft const& text, instruction&) { return of_integer<op_shr>(text.type()); };
  table["popc"] = [](draft const& text, instruction&) { return of_unsigned<op_popc>(text.type()); };
  table["clz"] = [](draft const& text, instruction&) { return of_unsigned<op_clz>(text.type()); };
  table["brev"] = [](draft const& text, instruction&) { return of_unsigned<op_brev>(text.type()); };
  table["bfi"] = [](draft const& text, instruction&) { return of_unsigned<op_bfi>(text.type()); };
  table["bfe"] = [](draft const& text, instruction&) { return of_integer<op_bfe>(text.type()); };
  table["bfind"] = [](draft const& text, instruction& i) {
    i.mode = text.has("shiftamt");
    return of_integer<op_bfind>(text.type());
  };
  table["prmt"] = [](draft const& text, instruction&) { return text.words.size() == 2 ? handler(run_prmt) : nullptr; };
  table["lop3"] = [](draft const&, instruction&) { return handler(run_lop3); };
  table["bmsk"] = [](draft const& text, instruction& i) {
    i.mode = text.has("wrap");
    return handler(run_bmsk);
  };
  table["shf"] = [](draft const& text, instruction& i) {
    i.mode = static_cast<std::uint8_t>((text.has("r") ? 1 : 0) | (text.has("clamp") ? 2 : 0));
    return handler(run_shf);
  };
}

}  // namespace emulator
