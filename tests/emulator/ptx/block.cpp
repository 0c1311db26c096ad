// tests/emulator/ptx/block.cpp — a block begins, its threads run by turns, functions are entered and left.
#include "ptx/block.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "ptx/running.hpp"
#include "ptx/specials.hpp"
#include "ptx/waiting.hpp"

namespace emulator {

namespace {

constexpr std::uint64_t shared_alignment = 128;

std::uint64_t start_of(thread const& t, activation const& a, base from) {
  auto const address = [](void const* p) { return reinterpret_cast<std::uint64_t>(p); };
  switch (from) {
    case base::shared: return address(t.in->shared);
    case base::dynamic_shared:
      return address(t.in->shared) + align_up(t.calls.front().f->shared_bytes, shared_alignment);
    case base::local: return address(a.local.get());
    case base::argument: return address(a.params.get());
    case base::entry_argument: return address(t.in->params);
  }
  return 0;
}

std::unique_ptr<std::uint64_t[]> garbage_of(std::uint64_t bytes) {
  constexpr int garbage = 0xa7;
  auto made = std::unique_ptr<std::uint64_t[]>(new std::uint64_t[bytes / 8 + 2]);
  std::memset(made.get(), garbage, bytes);
  return made;
}

void begin(thread& t, block& b, launch const& l, unsigned index) {
  constexpr unsigned warp_size = 32;
  t.index = index, t.lane = index % warp_size, t.warp = index / warp_size, t.in = &b;
  t.is = thread::state::running;
  t.fenced = 0;
  t.read_since_fence.clear();
  t.calls.clear();
  enter(t, l.f);
  for (auto const& [slot, s] : l.f.specials) t.slots[slot] = special_value(l, b, t, s);
}

/// Runs a thread until it waits, ends, or its quantum is over.
void run(thread& t) {
  auto& machine = *t.in->of;
  machine.current = &t;
  auto const most = opt.quantum ? opt.quantum : ~std::uint64_t{0};
  std::uint64_t n = 0;
  while (n < most) {
    auto const& i = *t.next++;
    machine.current_instruction = &i;
    ++n;
    auto const is_skipped = i.predicate >= 0 && ((t.slots[i.predicate] & 1) != 0) == i.negated;
    if (!is_skipped && !i.run(t, i)) break;
  }
  machine.instructions += n;
  if (t.is == thread::state::ended) --t.in->live;
}

}  // namespace

block::block(running& machine) : of(&machine) {
  auto* const p = mmap(nullptr, max_shared, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (p == MAP_FAILED) throw fault("no memory below 4 GiB");
  shared = static_cast<unsigned char*>(p);
}

block::~block() { munmap(shared, max_shared); }

void begin(block& b, launch const& l, std::uint64_t number) {
  constexpr int garbage = 0x5b;
  auto const threads = static_cast<unsigned>(l.size.count());
  b.number = static_cast<std::uint32_t>(number);
  b.size = l.size;
  b.at.x = static_cast<unsigned>(number % l.grid.x);
  b.at.y = static_cast<unsigned>(number / l.grid.x % l.grid.y);
  b.at.z = static_cast<unsigned>(number / l.grid.x / l.grid.y);
  b.live = threads;
  b.busy = true;

  b.shared_bytes =
      l.dynamic_shared ? align_up(l.f.shared_bytes, shared_alignment) + l.dynamic_shared : l.f.shared_bytes;
  std::memset(b.shared, static_cast<int>(garbage + number), b.shared_bytes);
  b.states.assign(b.shared_bytes, heap::allocated);
  b.params = l.params, b.param_bytes = l.param_bytes;

  b.epoch = ++b.of->epoch;
  b.warp_epochs.assign((threads + 31) / 32, 1);
  b.seen.clear();
  b.threads.resize(threads);
  for (unsigned i = 0; i < threads; ++i) begin(b.threads[i], b, l, i);
}

bool run_threads(block& b) {
  auto& order = b.of->order;
  put_in_order(*b.of, order, b.threads.size());
  auto ran = false;
  for (auto const i : order) {
    if (b.threads[i].is != thread::state::running) continue;
    run(b.threads[i]);
    ran = true;
  }
  b.busy = b.live > 0;
  return open_barrier(b) || ran;
}

void enter(thread& t, function& f) {
  decode(f);
  auto& a = t.calls.emplace_back();
  a.f = &f;
  a.frame.reset(new std::uint64_t[f.frame.size()]);
  std::copy(f.frame.begin(), f.frame.end(), a.frame.get());
  a.params.reset(new std::uint64_t[f.param_bytes / 8 + 2]);
  if (f.local_bytes > 0) a.local = garbage_of(f.local_bytes);
  t.slots = a.frame.get();
  for (auto const& s : f.addresses) t.slots[s.slot] = start_of(t, a, s.from) + s.offset;
  t.next = f.code.data();
}

void leave(thread& t) {
  auto const* const next = t.calls.back().return_to;
  t.calls.pop_back();
  if (t.calls.empty()) {
    t.is = thread::state::ended;
    return;
  }
  t.slots = t.calls.back().frame.get();
  t.next = next;
}

}  // namespace emulator
