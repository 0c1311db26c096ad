// tests/emulator/ptx/control.cpp — jumps, calls, ends and barriers.
#include "ptx/opcodes.hpp"
#include "ptx/registers.hpp"
#include "ptx/waiting.hpp"

namespace emulator {

namespace {

instruction const* place(thread const& t, std::uint64_t index) { return t.calls.back().f->code.data() + index; }

bool run_bra(thread& t, instruction const& i) {
  t.next = place(t, static_cast<std::uint64_t>(i.imm));
  return true;
}
bool run_brx(thread& t, instruction const& i) {
  auto const k = get<std::uint32_t>(t, i.a);
  if (k >= i.more.size()) throw fault("brx.idx has no target " + std::to_string(k));
  t.next = place(t, i.more[k]);
  return true;
}

void copy_argument(std::uint64_t address, activation const& a, parameter const& p, bool to_callee) {
  auto* const outside = reinterpret_cast<unsigned char*>(address);
  auto* const inside = reinterpret_cast<unsigned char*>(a.params.get()) + p.offset;
  std::memcpy(to_callee ? inside : outside, to_callee ? outside : inside, p.size);
}

/// more: the caller's addresses of results, then of arguments.
bool run_call(thread& t, instruction const& i) {
  auto const* const caller = t.slots;
  auto const* const return_to = t.next;
  enter(t, *i.callee);
  auto& a = t.calls.back();
  a.return_to = return_to, a.call = &i;
  auto const& f = *i.callee;
  for (std::size_t k = 0; k < f.params.size(); ++k)
    copy_argument(caller[i.more[f.returns.size() + k]], a, f.params[k], true);
  return true;
}
bool run_ret(thread& t, instruction const&) {
  auto const& a = t.calls.back();
  if (a.call) {
    auto const& caller = t.calls[t.calls.size() - 2];
    for (std::size_t k = 0; k < a.f->returns.size(); ++k)
      copy_argument(caller.frame[a.call->more[k]], a, a.f->returns[k], false);
  }
  leave(t);
  return t.is == thread::state::running;
}
bool run_exit(thread& t, instruction const&) {
  while (!t.calls.empty()) leave(t);
  return false;
}
bool run_trap(thread&, instruction const&) { throw fault("trap"); }

/// Barrier a, for b threads or for all.
bool run_bar(thread& t, instruction const& i) {
  return wait_at_barrier(t, i, get<std::uint32_t>(t, i.a), i.b ? get<std::uint32_t>(t, i.b) : 0);
}

/// mode: 0 sync; 1 popc, 2 and, 3 or of predicates c, which imm negates.
handler select_bar(draft const& text, instruction& i) {
  auto const n = text.operands.size();
  if (text.has("sync")) {
    i.a = text.slot(0), i.b = text.slot(1), i.mode = 0;
    return run_bar;
  }
  if (!text.has("red")) return nullptr;
  i.mode = text.has("popc") ? 1 : text.has("and") ? 2 : 3;
  i.a = text.slot(1), i.b = n > 3 ? text.slot(2) : 0, i.c = text.slot(n - 1);
  i.imm = text.operands[n - 1].negated;
  return run_bar;
}

handler select_brx(draft const& text, instruction& i) {
  i.a = text.slot(0);
  return run_brx;
}

template <auto F>
handler select(draft const&, instruction&) {
  return F;
}

}  // namespace

void add_control(opcode_table& table) {
  table["bra"] = select<run_bra>;
  table["brx"] = select_brx;
  table["call"] = select<run_call>;
  table["ret"] = select<run_ret>;
  table["exit"] = select<run_exit>;
  table["trap"] = table["brkpt"] = select<run_trap>;
  table["bar"] = table["barrier"] = select_bar;
}

}  // namespace emulator
