// tests/emulator/ptx/comparisons.cpp — setp, which compares, and selp, which selects.
#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"

namespace emulator {

namespace {

enum comparison : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

/// Those that end with u hold where an operand is NaN too, the others do not.
template <class T>
bool holds(comparison c, T a, T b) {
  auto unordered = false;
  if constexpr (std::is_floating_point_v<T>) unordered = a != a || b != b;
  switch (c) {
    case eq: return a == b;
    case ne: return !unordered && a != b;
    case lt: return a < b;
    case le: return a <= b;
    case gt: return a > b;
    case ge: return a >= b;
    case equ: return unordered || a == b;
    case neu: return a != b;
    case ltu: return unordered || a < b;
    case leu: return unordered || a <= b;
    case gtu: return unordered || a > b;
    case geu: return unordered || a >= b;
    case num: return !unordered;
    case nan: return unordered;
  }
  return false;
}

enum joint : std::uint8_t { alone, with_and, with_or, with_xor };

bool joined(joint how, bool is, bool other) {
  return how == with_and ? is && other : how == with_or ? is || other : how == with_xor ? is != other : is;
}

/// mode: the comparison, and above its four bits how it is joined with predicate c, which imm negates.
template <class T>
struct op_setp {
  static bool run(thread& t, instruction const& i) {
    auto const is = holds(static_cast<comparison>(i.mode & 15), get<T>(t, i.a), get<T>(t, i.b));
    auto const how = static_cast<joint>(i.mode >> 4);
    auto const other = (t.slots[i.c] & 1) != static_cast<std::uint64_t>(i.imm);
    t.slots[i.d] = joined(how, is, other);
    if (i.d2) t.slots[i.d2] = joined(how, !is, other);
    return true;
  }
};

template <class T>
struct op_selp {
  static bool run(thread& t, instruction const& i) {
    put_bits(t, i.d, get<T>(t, t.slots[i.c] & 1 ? i.a : i.b));
    return true;
  }
};

handler select_setp(draft const& text, instruction& i) {
  static std::map<std::string, comparison> const comparisons = {
      {"eq", eq},   {"ne", ne},   {"lt", lt},   {"lo", lt},   {"le", le},   {"ls", le},
      {"gt", gt},   {"hi", gt},   {"ge", ge},   {"hs", ge},   {"equ", equ}, {"neu", neu},
      {"ltu", ltu}, {"leu", leu}, {"gtu", gtu}, {"geu", geu}, {"num", num}, {"nan", nan}};
  auto const at = comparisons.find(text.words[1]);
  if (at == comparisons.end()) return nullptr;
  auto const how = text.has("and") ? with_and : text.has("or") ? with_or : text.has("xor") ? with_xor : alone;
  i.mode = static_cast<std::uint8_t>(at->second | how << 4);
  i.imm = how != alone && text.operands[3].negated;
  return of_number<op_setp>(text.type());
}

}  // namespace

void add_comparisons(opcode_table& table) {
  table["setp"] = select_setp;
  table["selp"] = [](draft const& text, instruction&) { return of_bits<op_selp>(text.type()); };
}

}  // namespace emulator
