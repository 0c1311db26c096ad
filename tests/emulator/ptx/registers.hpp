// tests/emulator/ptx/registers.hpp — values in slots, and handlers for the types that an instruction has.
#pragma once

#include <cstring>
#include <type_traits>

#include "ptx/block.hpp"

namespace emulator {

template <class T>
T get(thread const& t, std::uint32_t slot) {
  T v;
  std::memcpy(&v, &t.slots[slot], sizeof v);
  return v;
}

/// Integers fill the slot, by their sign; the rest of a slot is zero.
template <class T>
void put_bits(thread& t, std::uint32_t slot, T v) {
  if constexpr (std::is_integral_v<T>) {
    t.slots[slot] = static_cast<std::uint64_t>(v);
  } else {
    t.slots[slot] = 0;
    std::memcpy(&t.slots[slot], &v, sizeof v);
  }
}

/// What an operation gives: as put_bits, but a NaN of single precision is the one that devices make.
template <class T>
void put(thread& t, std::uint32_t slot, T v) {
  if constexpr (std::is_same_v<T, float>) {
    if (v != v) return put_bits(t, slot, std::uint32_t{0x7fffffff});
  }
  put_bits(t, slot, v);
}

/// d = F(a), d = F(a, b), d = F(a, b, c).
template <class T, auto F>
struct unary {
  static bool run(thread& t, instruction const& i) {
    put<T>(t, i.d, F(get<T>(t, i.a)));
    return true;
  }
};
template <class T, auto F>
struct binary {
  static bool run(thread& t, instruction const& i) {
    put<T>(t, i.d, F(get<T>(t, i.a), get<T>(t, i.b)));
    return true;
  }
};
template <class T, auto F>
struct ternary {
  static bool run(thread& t, instruction const& i) {
    put<T>(t, i.d, F(get<T>(t, i.a), get<T>(t, i.b), get<T>(t, i.c)));
    return true;
  }
};

/// The handler of a type's name, or null.
template <template <class> class Op>
handler of_medium_integer(std::string const& type) {
  if (type == "b16" || type == "u16") return Op<std::uint16_t>::run;
  if (type == "s16") return Op<std::int16_t>::run;
  if (type == "b32" || type == "u32") return Op<std::uint32_t>::run;
  if (type == "s32") return Op<std::int32_t>::run;
  return nullptr;
}
template <template <class> class Op>
handler of_integer(std::string const& type) {
  if (type == "b64" || type == "u64") return Op<std::uint64_t>::run;
  if (type == "s64") return Op<std::int64_t>::run;
  return of_medium_integer<Op>(type);
}
template <template <class> class Op>
handler of_float(std::string const& type) {
  if (type == "f32") return Op<float>::run;
  if (type == "f64") return Op<double>::run;
  return nullptr;
}
template <template <class> class Op>
handler of_number(std::string const& type) {
  auto const h = of_integer<Op>(type);
  return h ? h : of_float<Op>(type);
}
/// By the width alone: what moves bits.
template <template <class> class Op>
handler of_bits(std::string const& type) {
  switch (size_of(type)) {
    case 1: return Op<std::uint8_t>::run;
    case 2: return Op<std::uint16_t>::run;
    case 4: return Op<std::uint32_t>::run;
    case 8: return Op<std::uint64_t>::run;
    default: return nullptr;
  }
}

}  // namespace emulator
