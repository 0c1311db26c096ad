// tests/emulator/ptx/warp_operations.cpp — shfl, vote, match, redux and bar.warp: run once, when all lanes have come.
#include <algorithm>

#include "ptx/fault.hpp"
#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"
#include "ptx/waiting.hpp"

namespace emulator {

namespace {

using std::int32_t, std::uint32_t, std::uint64_t;

enum operation : std::uint8_t {
  barrier,
  up,
  down,
  butterfly,
  index,
  all,
  any,
  uniform,
  ballot,
  match_any,
  match_all,
  sum,
  min_signed,
  least,
  max_signed,
  most,
  and_,
  or_,
  xor_,
};

/// The lanes of a warp that its mask names.
struct lanes {
  thread* first;
  uint32_t mask;

  template <class F>
  void each(F const& f) const {
    for (unsigned lane = 0; lane < 32; ++lane)
      if (mask >> lane & 1) f(lane, first[lane]);
  }
};

/// Where a lane reads, by the segment and clamp of operand c; and whether it is within them.
struct source {
  unsigned lane;
  bool valid;
};
source source_of(operation how, unsigned lane, uint32_t by, uint32_t c) {
  auto const clamp = c & 31, segment = c >> 8 & 31, n = by & 31;
  auto const last = (lane & segment) | (clamp & ~segment);
  auto const from = how == up          ? lane - n
                    : how == down      ? lane + n
                    : how == butterfly ? lane ^ n
                                       : (lane & segment) | (n & ~segment);
  auto const valid = how == up ? static_cast<int>(from) >= static_cast<int>(last) : from <= last;
  return {valid ? from : lane, valid};
}

void shuffle(lanes const& w, instruction const& i) {
  uint32_t values[32] = {};
  w.each([&](unsigned lane, thread& t) { values[lane] = get<uint32_t>(t, i.a); });
  w.each([&](unsigned lane, thread& t) {
    auto const from = source_of(static_cast<operation>(i.mode), lane, get<uint32_t>(t, i.b), get<uint32_t>(t, i.c));
    if (!(w.mask >> from.lane & 1))
      throw fault("shuffle: lane " + std::to_string(lane) + " reads lane " + std::to_string(from.lane) +
                  ", which mask " + hex(w.mask) + " does not name");
    put(t, i.d, values[from.lane]);
    if (i.d2) t.slots[i.d2] = from.valid;
  });
}

/// imm negates the predicates.
void vote(lanes const& w, instruction const& i) {
  uint32_t votes = 0;
  w.each([&](unsigned lane, thread& t) {
    auto const holds = (t.slots[i.a] & 1) != static_cast<uint64_t>(i.imm);
    votes |= uint32_t{holds} << lane;
  });
  auto const every = votes == w.mask, none = votes == 0;
  auto const result = i.mode == all ? every : i.mode == any ? !none : i.mode == uniform ? every || none : votes;
  w.each([&](unsigned, thread& t) { t.slots[i.d] = result; });
}

/// lanes 2: of 64 bits.
void match(lanes const& w, instruction const& i) {
  auto const value = [&](thread const& t) { return i.lanes == 2 ? get<uint64_t>(t, i.a) : get<uint32_t>(t, i.a); };
  uint32_t equal[32] = {};
  w.each([&](unsigned lane, thread& t) {
    w.each([&](unsigned other, thread& o) { equal[lane] |= uint32_t{value(t) == value(o)} << other; });
  });
  w.each([&](unsigned lane, thread& t) {
    auto const every = equal[lane] == w.mask;
    t.slots[i.d] = i.mode == match_any || every ? equal[lane] : 0;
    if (i.d2) t.slots[i.d2] = every;
  });
}

uint32_t reduced(operation how, uint32_t a, uint32_t b) {
  auto const less = static_cast<int32_t>(a) < static_cast<int32_t>(b);
  switch (how) {
    case sum: return a + b;
    case min_signed: return less ? a : b;
    case max_signed: return less ? b : a;
    case least: return std::min(a, b);
    case most: return std::max(a, b);
    case and_: return a & b;
    case or_: return a | b;
    default: return a ^ b;
  }
}
void reduce(lanes const& w, instruction const& i) {
  auto first = true;
  uint32_t result = 0;
  w.each([&](unsigned, thread& t) {
    auto const v = get<uint32_t>(t, i.a);
    result = first ? v : reduced(static_cast<operation>(i.mode), result, v);
    first = false;
  });
  w.each([&](unsigned, thread& t) { put(t, i.d, result); });
}

/// e: the mask.
bool run_with_warp(thread& t, instruction const& i) { return wait_for_warp(t, i, get<uint32_t>(t, i.e)); }

handler select_bar(draft const& text, instruction& i) {
  i.mode = barrier, i.e = text.slot(0);
  return run_with_warp;
}
handler select_shfl(draft const& text, instruction& i) {
  i.mode = text.has("up") ? up : text.has("down") ? down : text.has("bfly") ? butterfly : index;
  return text.has("sync") ? run_with_warp : nullptr;
}
handler select_vote(draft const& text, instruction& i) {
  i.mode = text.has("all") ? all : text.has("any") ? any : text.has("uni") ? uniform : ballot;
  i.e = text.slot(2);
  i.imm = text.operands[1].negated;
  return text.has("sync") ? run_with_warp : nullptr;
}
handler select_match(draft const& text, instruction& i) {
  i.mode = text.has("any") ? match_any : match_all;
  i.e = text.slot(2);
  i.lanes = text.type() == "b64" ? 2 : 1;
  return text.has("sync") ? run_with_warp : nullptr;
}
handler select_redux(draft const& text, instruction& i) {
  auto const is_signed = text.type()[0] == 's';
  i.mode = text.has("add")   ? sum
           : text.has("min") ? (is_signed ? min_signed : least)
           : text.has("max") ? (is_signed ? max_signed : most)
           : text.has("and") ? and_
           : text.has("or")  ? or_
                             : xor_;
  i.e = text.slot(2);
  return text.has("sync") && !text.is_float() ? run_with_warp : nullptr;
}

/// A lane runs alone, so that no other one is active.
bool run_activemask(thread& t, instruction const& i) {
  put(t, i.d, uint32_t{1} << t.lane);
  return true;
}

}  // namespace

void run_for_warp(block& b, unsigned warp, std::uint32_t mask, instruction const& i) {
  auto const w = lanes{&b.threads[warp * 32], mask};
  if (i.mode == barrier) return;
  if (i.mode <= index) return shuffle(w, i);
  if (i.mode <= ballot) return vote(w, i);
  if (i.mode <= match_all) return match(w, i);
  reduce(w, i);
}

void add_warp_operations(opcode_table& table) {
  table["bar.warp"] = table["barrier.warp"] = select_bar;
  table["shfl"] = select_shfl;
  table["vote"] = select_vote;
  table["match"] = select_match;
  table["redux"] = select_redux;
  table["activemask"] = [](draft const&, instruction&) { return handler(run_activemask); };
}

}  // namespace emulator
