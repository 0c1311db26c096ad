// tests/emulator/ptx/opcodes.cpp — see opcodes.hpp.
#include "ptx/opcodes.hpp"

#include <algorithm>

#include "ptx/block.hpp"
#include "ptx/fault.hpp"

namespace emulator {

bool draft::has(char const* word) const { return std::find(words.begin() + 1, words.end(), word) != words.end(); }

std::uint8_t draft::rounding() const { return has("rz") ? 1 : has("rm") ? 2 : has("rp") ? 3 : 0; }

opcode_table const& opcodes() {
  static auto const table = [] {
    opcode_table t;
    add_arithmetic(t);
    add_bits(t);
    add_comparisons(t);
    add_conversions(t);
    add_memory(t);
    add_moves(t);
    add_control(t);
    add_warp_operations(t);
    return t;
  }();
  return table;
}

selector selector_of(draft const& text) {
  auto const& words = text.words;
  auto const two = words.size() > 1 ? opcodes().find(words[0] + '.' + words[1]) : opcodes().end();
  auto const found = two != opcodes().end() ? two : opcodes().find(words[0]);
  return found == opcodes().end() ? nullptr : found->second;
}

bool run_lacking(thread& t, instruction const& i) {
  throw fault("the emulator lacks the instruction '" + origin_of(t, i).text + "'");
}

}  // namespace emulator
