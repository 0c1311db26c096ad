// tests/emulator/ptx/access.cpp — see access.hpp.
#include "ptx/access.hpp"

#include <cstring>

#include "ptx/running.hpp"

namespace emulator {

namespace {

bool have_all(unsigned char const* states, unsigned n, unsigned char state) {
  for (unsigned k = 0; k < n; ++k)
    if ((states[k] & state) != state) return false;
  return true;
}

/// Marks written bytes. Faults if a read or an atomic operation reaches unwritten bytes.
void check_states(unsigned char* states, access const& a) {
  auto const reads = !a.writes || a.atomic;
  if (reads && opt.undefined && !have_all(states, a.n, heap::written))
    throw fault("uninitialised read of " + std::to_string(a.n) + " bytes at " + hex(a.address));
  if (a.writes) std::memset(states, heap::written, a.n);
}

unsigned char* touch_shared(thread& t, access const& a) {
  auto& b = *t.in;
  auto const offset = a.address - reinterpret_cast<std::uint64_t>(b.shared);
  if (offset >= b.shared_bytes || offset + a.n > b.shared_bytes) return nullptr;
  if (opt.check) check_states(&b.states[offset], a);
  if (opt.races > 0) check_shared_races(t, a, offset, b.shared + offset);
  return b.shared + offset;
}

unsigned char* touch_heap(thread& t, access const& a, heap& h, record_store& all_records) {
  if (!h.spans(a.address, a.n)) return nullptr;
  auto* const states = h.states_of(a.address);
  auto* const bytes = h.bytes_of(a.address);
  if (opt.check) {
    if (!have_all(states, a.n, heap::allocated)) return nullptr;
    check_states(states, a);
  }
  if (opt.races > 1) check_global_races(t, a, all_records, h.offset_of(a.address), bytes);
  return bytes;
}

unsigned char* touch_global(thread& t, access const& a) {
  auto& machine = *t.in->of;
  auto* const own = touch_heap(t, a, machine.memory, machine.global_records);
  return own ? own : touch_heap(t, a, machine.pinned, machine.pinned_records);
}

bool lies_in(access const& a, void const* first, std::uint64_t n) {
  auto const offset = a.address - reinterpret_cast<std::uint64_t>(first);
  return first && offset < n && offset + a.n <= n;
}

/// Local variables of a thread's functions, and the arguments of its kernel.
unsigned char* touch_local(thread& t, access const& a) {
  auto const in_arguments = lies_in(a, t.in->params, t.in->param_bytes) && !a.writes;
  auto in_variables = false;
  for (auto const& c : t.calls) in_variables = in_variables || lies_in(a, c.local.get(), c.f->local_bytes);
  return in_arguments || in_variables ? reinterpret_cast<unsigned char*>(a.address) : nullptr;
}

std::string place_of(thread const& t, access const& a) {
  auto const offset = a.address - reinterpret_cast<std::uint64_t>(t.in->shared);
  if (a.by.where == space::shared)
    return "byte " + std::to_string(offset) + " of " + std::to_string(t.in->shared_bytes) + " bytes of shared memory";
  return t.in->of->memory.describe(a.address);
}

[[noreturn]] void refuse(thread const& t, access const& a) {
  throw fault("illegal address " + hex(a.address) + ": " + std::to_string(a.n) + " bytes " +
                  (a.writes ? "written" : "read") + " at " + place_of(t, a),
              fault::kind::illegal_address);
}

}  // namespace

unsigned char* touch(thread& t, access const& a) {
  auto const where = a.by.where;
  if (where == space::param) return reinterpret_cast<unsigned char*>(a.address);
  if (opt.check && a.address % a.n != 0)
    throw fault("misaligned address " + hex(a.address) + " of " + std::to_string(a.n) + " bytes",
                fault::kind::misaligned);

  auto const anywhere = where == space::generic;
  unsigned char* p = nullptr;
  if (anywhere || where == space::shared) p = touch_shared(t, a);
  if (!p && (anywhere || where == space::global)) p = touch_global(t, a);
  if (!p && (anywhere || where == space::local)) p = touch_local(t, a);
  if (!p) refuse(t, a);
  return p;
}

}  // namespace emulator
