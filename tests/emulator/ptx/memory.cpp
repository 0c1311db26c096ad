// tests/emulator/ptx/memory.cpp — loads, stores, atomic operations and fences.
#include <algorithm>

#include "ptx/access.hpp"
#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"

namespace emulator {

namespace {

std::uint64_t address_of(thread const& t, instruction const& i) {
  return t.slots[i.a] + static_cast<std::uint64_t>(i.imm);
}

/// To d, or to the slots of a vector.
template <class T>
struct op_ld {
  static bool run(thread& t, instruction const& i) {
    auto const n = static_cast<unsigned>(sizeof(T)) * i.lanes;
    auto const* const p = touch(t, {i, address_of(t, i), n, false, false, nullptr});
    for (unsigned k = 0; k < i.lanes; ++k) {
      T v;
      std::memcpy(&v, p + sizeof v * k, sizeof v);
      auto const to = i.lanes == 1 ? i.d : i.more[k];
      if (to) put_bits(t, to, v);
    }
    return true;
  }
};

/// Of b, or of the slots of a vector.
template <class T>
struct op_st {
  static bool run(thread& t, instruction const& i) {
    constexpr auto max_lanes = 4;
    unsigned char bytes[sizeof(T) * max_lanes];
    auto const n = static_cast<unsigned>(sizeof(T)) * i.lanes;
    for (unsigned k = 0; k < i.lanes; ++k)
      std::memcpy(bytes + sizeof(T) * k, &t.slots[i.lanes == 1 ? i.b : i.more[k]], sizeof(T));
    auto* const p = touch(t, {i, address_of(t, i), n, true, false, bytes});
    std::memcpy(p, bytes, n);
    return true;
  }
};

enum atomic : std::uint8_t { add, min, max, exch, cas, and_, or_, xor_, inc, dec };

template <class T>
T changed_integer(std::uint8_t how, T old, T b) {
  switch (how) {
    case add: return static_cast<T>(static_cast<std::uint64_t>(old) + static_cast<std::uint64_t>(b));
    case and_: return old & b;
    case or_: return old | b;
    case xor_: return old ^ b;
    case inc: return old >= b ? 0 : old + 1;
    case dec: return old == 0 || old > b ? b : old - 1;
    default: return b;
  }
}
template <class T>
T changed(std::uint8_t how, T old, T b, T c) {
  if (how == cas) return old == b ? c : old;
  if (how == min) return std::min(old, b);
  if (how == max) return std::max(old, b);
  if constexpr (std::is_integral_v<T>)
    return changed_integer(how, old, b);
  else
    return how == add ? old + b : b;
}

/// Gives d what was there, where an atom has a d.
template <class T>
struct op_atom {
  static bool run(thread& t, instruction const& i) {
    auto* const p = touch(t, {i, address_of(t, i), sizeof(T), true, true, nullptr});
    T old;
    std::memcpy(&old, p, sizeof old);
    auto const now = changed<T>(i.mode, old, get<T>(t, i.b), get<T>(t, i.c));
    std::memcpy(p, &now, sizeof now);
    if (i.d) put_bits(t, i.d, old);
    return true;
  }
};

/// The thread's block sees from now on what the thread read of other blocks.
bool run_fence(thread& t, instruction const&) {
  t.fenced = t.in->epoch;
  for (auto const& [other, p] : t.read_since_fence) t.in->seen[other] = p;
  t.read_since_fence.clear();
  return true;
}
bool run_nothing(thread&, instruction const&) { return true; }

handler select_ld(draft const& text, instruction& i) {
  auto const &to = text.operands[0], &from = text.operands[1];
  i.a = from.slot, i.imm = from.offset;
  i.more = to.slots;
  i.lanes = static_cast<std::uint8_t>(std::max<std::size_t>(1, to.slots.size()));
  auto const& type = text.type();
  return type == "s8" ? op_ld<std::int8_t>::run : type[0] == 's' ? of_integer<op_ld>(type) : of_bits<op_ld>(type);
}
handler select_st(draft const& text, instruction& i) {
  auto const &to = text.operands[0], &from = text.operands[1];
  i.a = to.slot, i.imm = to.offset, i.b = from.slot;
  i.more = from.slots;
  i.lanes = static_cast<std::uint8_t>(std::max<std::size_t>(1, from.slots.size()));
  return of_bits<op_st>(text.type());
}
handler select_atom(draft const& text, instruction& i) {
  static std::map<std::string, atomic> const names = {{"add", add}, {"min", min},  {"max", max}, {"exch", exch},
                                                      {"cas", cas}, {"and", and_}, {"or", or_},  {"xor", xor_},
                                                      {"inc", inc}, {"dec", dec}};
  auto const first = text.words[0] == "atom" ? std::size_t{1} : 0;
  if (first == 0) i.d = 0;
  auto const& to = text.operands[first];
  i.a = to.slot, i.imm = to.offset, i.b = text.slot(first + 1), i.c = text.slot(first + 2);
  for (auto const& word : text.words) {
    auto const at = names.find(word);
    if (at == names.end()) continue;
    i.mode = at->second;
    return of_number<op_atom>(text.type());
  }
  return nullptr;
}

}  // namespace

void add_memory(opcode_table& table) {
  table["ld"] = table["ldu"] = select_ld;
  table["st"] = select_st;
  table["atom"] = table["red"] = select_atom;
  table["membar"] = table["fence"] = [](draft const&, instruction&) { return handler(run_fence); };
  for (auto const* name : {"prefetch", "prefetchu", "nanosleep", "pmevent", "discard", "applypriority"})
    table[name] = [](draft const&, instruction&) { return handler(run_nothing); };
}

}  // namespace emulator
