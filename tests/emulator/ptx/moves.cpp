// tests/emulator/ptx/moves.cpp — mov, which also packs and unpacks, cvta and isspacep.
#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"
#include "ptx/running.hpp"

namespace emulator {

namespace {

using std::uint64_t;

template <class T>
struct op_mov {
  static bool run(thread& t, instruction const& i) {
    put_bits(t, i.d, get<T>(t, i.a));
    return true;
  }
};

/// mode: bits of each part of the vector.
bool run_pack(thread& t, instruction const& i) {
  auto const part = (uint64_t{1} << i.mode) - 1;
  uint64_t made = 0;
  for (std::size_t k = 0; k < i.more.size(); ++k) made |= (t.slots[i.more[k]] & part) << (i.mode * k);
  t.slots[i.d] = made;
  return true;
}
bool run_unpack(thread& t, instruction const& i) {
  auto const part = (uint64_t{1} << i.mode) - 1;
  auto const whole = t.slots[i.a];
  for (std::size_t k = 0; k < i.more.size(); ++k)
    if (i.more[k]) t.slots[i.more[k]] = whole >> (i.mode * k) & part;
  return true;
}

bool run_mov_predicate(thread& t, instruction const& i) {
  t.slots[i.d] = t.slots[i.a] & 1;
  return true;
}

/// Time is what was executed.
bool run_clock(thread& t, instruction const& i) {
  t.slots[i.d] = t.in->of->instructions;
  return true;
}

bool run_isspacep(thread& t, instruction const& i) {
  auto const address = t.slots[i.a];
  auto const is_shared = address - reinterpret_cast<uint64_t>(t.in->shared) < t.in->shared_bytes;
  auto const is_global = t.in->of->memory.spans(address, 1) || t.in->of->pinned.spans(address, 1);
  t.slots[i.d] = i.where == space::shared ? is_shared : i.where == space::global ? is_global : !is_shared && !is_global;
  return true;
}

handler select_mov(draft const& text, instruction& i) {
  auto const &to = text.operands[0], &from = text.operands[1];
  auto const& vector = to.slots.empty() ? from.slots : to.slots;
  if (!vector.empty()) {
    i.more = vector;
    i.mode = static_cast<std::uint8_t>(8 * size_of(text.type()) / vector.size());
    return to.slots.empty() ? run_pack : run_unpack;
  }
  if (from.name == "%clock" || from.name == "%clock64" || from.name == "%globaltimer") return run_clock;
  if (from.slot == 0) return nullptr;
  if (text.type() == "pred") return run_mov_predicate;
  return text.type()[0] == 's' ? of_integer<op_mov>(text.type()) : of_bits<op_mov>(text.type());
}

}  // namespace

void add_moves(opcode_table& table) {
  table["mov"] = select_mov;
  table["cvta"] = [](draft const&, instruction&) { return handler(op_mov<uint64_t>::run); };
  table["isspacep"] = [](draft const&, instruction&) { return handler(run_isspacep); };
}

}  // namespace emulator
