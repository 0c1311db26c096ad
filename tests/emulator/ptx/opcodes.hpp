// tests/emulator/ptx/opcodes.hpp — how the words of an instruction select what runs it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ptx/module.hpp"

namespace emulator {

struct operand {
  enum class kind { slot, vector, address, name } of = kind::slot;
  std::uint32_t slot = 0, second = 0;  // second: of "d|p"
  std::vector<std::uint32_t> slots;    // of a vector
  std::int64_t offset = 0;             // of an address
  bool negated = false;
  std::string name;
};

/// An instruction as it is written: "ld", "global", "u32" and its operands.
struct draft {
  std::vector<std::string> words;
  std::vector<operand> operands;

  std::string const& type() const { return words.back(); }
  bool has(char const* word) const;
  bool is_float() const { return type()[0] == 'f'; }
  std::uint32_t slot(std::size_t operand) const { return operand < operands.size() ? operands[operand].slot : 0; }
  /// 0 nearest, 1 towards zero, 2 down, 3 up.
  std::uint8_t rounding() const;
};

/// Selects a handler, and fills in what the common rule (d, a, b, c, e are the operands in order) does not; null where
/// the combination of words is lacking.
using selector = handler (*)(draft const&, instruction&);
using opcode_table = std::map<std::string, selector>;

/// By the first word of an instruction, or its first two.
opcode_table const& opcodes();
selector selector_of(draft const& text);

void add_arithmetic(opcode_table& table);
void add_bits(opcode_table& table);
void add_comparisons(opcode_table& table);
void add_conversions(opcode_table& table);
void add_memory(opcode_table& table);
void add_moves(opcode_table& table);
void add_control(opcode_table& table);
void add_warp_operations(opcode_table& table);

/// Faults with the instruction's text.
bool run_lacking(thread& t, instruction const& i);

}  // namespace emulator
