// run.cpp — grids, blocks, barriers, warps, bounds and races.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "ptx/state.hpp"

namespace emulator {

options opt;

std::string hex(std::uint64_t v) {
  char s[32];
  std::snprintf(s, sizeof s, "0x%llx", static_cast<unsigned long long>(v));
  return s;
}

namespace {

void note(block& b, thread& t, std::uint64_t offset, unsigned n, bool writes, bool atomic, unsigned char const* now,
          void const* value) {
  auto const warp_epoch = b.warp_epochs[t.warp];
  for (unsigned k = 0; k < n; ++k) {
    auto& s = b.shadows[offset + k];
    auto const ordered = [&](std::uint16_t other, std::uint32_t then) {
      return other == t.index || (b.threads[other].warp == t.warp && then < warp_epoch);
    };
    if (s.written == b.epoch && !(atomic && s.atomic) && !ordered(s.writer, s.written_warp)) {
      auto const same = writes && !atomic && value && static_cast<unsigned char const*>(value)[k] == now[k];
      if (!same)
        throw fault("race: thread " + std::to_string(t.index) + (writes ? " writes" : " reads") + " shared byte " +
                    std::to_string(offset + k) + " that thread " + std::to_string(s.writer) +
                    " wrote since the last barrier");
    }
    if (writes) {
      if (s.read == b.epoch && !atomic && (s.readers || !ordered(s.reader, s.read_warp))) {
        if (!(value && static_cast<unsigned char const*>(value)[k] == now[k]))
          throw fault("race: thread " + std::to_string(t.index) + " writes shared byte " + std::to_string(offset + k) +
                      " that thread " + std::to_string(s.reader) + " read since the last barrier");
      }
      s.written = b.epoch, s.writer = static_cast<std::uint16_t>(t.index), s.written_warp = warp_epoch, s.atomic = atomic;
    } else {
      s.readers = s.read == b.epoch && (s.readers || b.threads[s.reader].warp != t.warp);
      s.read = b.epoch, s.reader = static_cast<std::uint16_t>(t.index), s.read_warp = warp_epoch;
    }
  }
}

void note_global(block& b, thread& t, std::uint64_t address, unsigned n, bool writes, bool atomic,
                 unsigned char const* now, void const* value) {
  auto& memory = b.of->memory->spans(address, n) ? *b.of->memory : *b.of->pinned;
  auto& shadows = b.of->shadows[&memory];
  if (!shadows) {
    auto* const p = mmap(nullptr, heap::range * sizeof(global_shadows), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw fault("no addresses for the records of races");
    shadows = static_cast<global_shadows*>(p);
  }
  auto* s = shadows + memory.offset_of(address);
  auto const launch = static_cast<std::uint32_t>(b.of->kernels);
  auto const warp_epoch = b.warp_epochs[t.warp];
  if (atomic) {
    auto& all = b.of->releases[address];
    for (auto const& [other, r] : all)
      if (other != b.number) b.seen[other] = r;
    if (t.fenced == b.epoch) all[b.number] = {b.epoch, static_cast<std::uint16_t>(t.index)};
  }
  auto const ordered = [&](global_shadow const& o) {
    if (o.launch != launch) return true;
    if (o.block == b.number)
      return o.thread == t.index || o.epoch < b.epoch || (b.threads[o.thread].warp == t.warp && o.warp_epoch < warp_epoch);
    auto const at = b.seen.find(o.block);
    return at != b.seen.end() && (o.epoch < at->second.epoch || (o.epoch == at->second.epoch && o.thread == at->second.thread));
  };
  auto const who = [](global_shadow const& o) { return "thread " + std::to_string(o.thread) + " of block " + std::to_string(o.block); };
  for (unsigned k = 0; k < n; ++k, ++s) {
    auto const same = writes && !atomic && value && static_cast<unsigned char const*>(value)[k] == now[k];
    if (!(atomic && s->written.atomic) && !same && !ordered(s->written))
      throw fault("race: thread " + std::to_string(t.index) + " of block " + std::to_string(b.number) +
                  (writes ? " writes" : " reads") + " global byte " + hex(address + k) + " (" + memory.describe(address + k) +
                  ") that " + who(s->written) + " wrote");
    auto const mine = global_shadow{launch, b.number, warp_epoch, static_cast<std::uint16_t>(t.index), atomic, false, b.epoch};
    if (writes) {
      if (!atomic && !same && (!ordered(s->read) || (s->read.several && s->read.launch == launch && s->read.epoch == b.epoch && s->read.block == b.number)))
        throw fault("race: thread " + std::to_string(t.index) + " of block " + std::to_string(b.number) + " writes global byte " +
                    hex(address + k) + " (" + memory.describe(address + k) + ") that " + who(s->read) + " read");
      s->written = mine;
    } else {
      auto const several = s->read.launch == launch && s->read.block == b.number && s->read.epoch == b.epoch &&
                           (s->read.several || b.threads[s->read.thread].warp != t.warp);
      s->read = mine;
      s->read.several = several;
    }
  }
}

bool in_local(thread& t, std::uint64_t address, unsigned bytes) {
  for (auto& a : t.calls) {
    auto const b = reinterpret_cast<std::uint64_t>(a.local.get());
    if (b && address >= b && address + bytes <= b + a.f->local_bytes) return true;
  }
  return false;
}

}  // namespace

namespace {

bool all(unsigned char const* states, unsigned n, unsigned char bits) {
  for (unsigned k = 0; k < n; ++k)
    if ((states[k] & bits) != bits) return false;
  return true;
}

/// Marks what is written as written, and faults where a read or an atomic operation meets what never was.
void check_written(unsigned char* states, std::uint64_t address, unsigned n, bool writes, bool atomic) {
  if (opt.undefined && (!writes || atomic) && !all(states, n, heap::written))
    throw fault("uninitialised read: " + std::to_string(n) + " bytes at " + hex(address) + ", which were not all written");
  if (writes) std::memset(states, heap::written, n);
}

}  // namespace

unsigned char* touch(thread& t, inst const& i, std::uint64_t address, unsigned bytes, bool writes, bool atomic,
                     void const* value) {
  auto& b = *t.in;
  auto& now = *b.of;
  if (i.where == space::param) return reinterpret_cast<unsigned char*>(address);
  if (opt.check && address % bytes != 0)
    throw fault("misaligned address " + hex(address) + " of " + std::to_string(bytes) + " bytes", fault::kind::misaligned);

  auto const offset = address - reinterpret_cast<std::uint64_t>(b.shared);
  if (offset < b.shared_bytes && offset + bytes <= b.shared_bytes && (i.where == space::shared || i.where == space::generic)) {
    auto* const p = reinterpret_cast<unsigned char*>(address);
    if (opt.check) check_written(&b.states[offset], address, bytes, writes, atomic);
    if (opt.races > 0) note(b, t, offset, bytes, writes, atomic, p, value);
    return p;
  }
  if (i.where == space::global || i.where == space::generic) {
    for (auto* h : {now.memory, now.pinned}) {
      if (!h->spans(address, bytes)) continue;
      auto* const states = h->states_of(address);
      if (opt.check && !all(states, bytes, heap::allocated)) break;
      auto* const p = h->bytes_of(address);
      if (opt.check) check_written(states, address, bytes, writes, atomic);
      if (opt.races > 1) note_global(b, t, address, bytes, writes, atomic, p, value);
      return p;
    }
  }
  if (i.where == space::local || i.where == space::generic) {
    auto const param = address - reinterpret_cast<std::uint64_t>(b.params);
    if (in_local(t, address, bytes) || param + bytes <= b.param_bytes) return reinterpret_cast<unsigned char*>(address);
  }
  throw fault("illegal address " + hex(address) + ": " +
                  (i.where == space::shared ? "byte " + std::to_string(offset) + " of " + std::to_string(b.shared_bytes) +
                                                  " of shared memory"
                                            : now.memory->describe(address)),
              fault::kind::illegal_address);
}

void enter(thread& t, function& f, unsigned char const* entry_params) {
  decode(f);
  t.calls.emplace_back();
  auto& a = t.calls.back();
  a.f = &f;
  a.frame.reset(new std::uint64_t[f.frame.size() + 1]);
  if (f.local_bytes) a.local.reset(new std::uint64_t[f.local_bytes / 8 + 2]);
  if (f.local_bytes) std::memset(a.local.get(), 0xa7, f.local_bytes);
  a.params.reset(new std::uint64_t[f.param_bytes / 8 + 2]);
  std::copy(f.frame.begin(), f.frame.end(), a.frame.get());
  t.r = a.frame.get();
  for (auto const& s : f.addresses) {
    auto const base = s.kind == 's' || s.kind == 'x' ? reinterpret_cast<std::uint64_t>(t.in->shared)
                      : s.kind == 'l'                ? reinterpret_cast<std::uint64_t>(a.local.get())
                      : s.kind == 'k' ? reinterpret_cast<std::uint64_t>(entry_params)
                                      : reinterpret_cast<std::uint64_t>(a.params.get());
    t.r[s.slot] = base + s.offset + (s.kind == 'x' ? (t.calls.front().f->shared_bytes + 127) / 128 * 128 : 0);
  }
  t.pc = f.code.data();
}

void leave(thread& t) {
  auto const back = t.calls.back().back;
  t.calls.pop_back();
  if (t.calls.empty()) {
    t.state = doing::ended;
    return;
  }
  t.r = t.calls.back().frame.get();
  t.pc = back;
}

namespace {

constexpr std::size_t arena = 256 * 1024;

struct launch {
  function& f;
  dims grid, size;
  std::uint64_t dynamic_shared;
  unsigned char const* params;
  std::uint64_t param_bytes;
};

std::uint64_t special_value(launch const& l, block const& b, thread const& t, special s) {
  auto const i = t.index;
  auto const lane = t.lane;
  switch (s) {
    case special::tid_x: return i % l.size.x;
    case special::tid_y: return i / l.size.x % l.size.y;
    case special::tid_z: return i / l.size.x / l.size.y;
    case special::ntid_x: return l.size.x;
    case special::ntid_y: return l.size.y;
    case special::ntid_z: return l.size.z;
    case special::ctaid_x: return b.at.x;
    case special::ctaid_y: return b.at.y;
    case special::ctaid_z: return b.at.z;
    case special::nctaid_x: return l.grid.x;
    case special::nctaid_y: return l.grid.y;
    case special::nctaid_z: return l.grid.z;
    case special::laneid: return lane;
    case special::warpid: return t.warp;
    case special::nwarpid: return 64;
    case special::smid: return (b.at.x + b.at.y) % 132;
    case special::nsmid: return 132;
    case special::gridid: return b.of->kernels;
    case special::lanemask_eq: return 1u << lane;
    case special::lanemask_lt: return (1u << lane) - 1;
    case special::lanemask_le: return (2u << lane) - 1;
    case special::lanemask_gt: return ~((2u << lane) - 1) & 0xffffffffu;
    case special::lanemask_ge: return ~((1u << lane) - 1) & 0xffffffffu;
    case special::dynamic_smem_size: return l.dynamic_shared;
    case special::total_smem_size: return b.shared_bytes;
    default: return 0;
  }
}

void begin(launch const& l, block& b, std::uint64_t number) {
  b.at.x = static_cast<unsigned>(number % l.grid.x);
  b.at.y = static_cast<unsigned>(number / l.grid.x % l.grid.y);
  b.at.z = static_cast<unsigned>(number / l.grid.x / l.grid.y);
  ++b.epoch;
  b.number = static_cast<std::uint32_t>(number);
  b.seen.clear();
  std::memset(b.shared, static_cast<int>(0x5b + number), b.shared_bytes);
  b.states.assign(b.shared_bytes, heap::allocated);
  b.params = l.params, b.param_bytes = l.param_bytes;
  auto const count = l.size.x * l.size.y * l.size.z;
  auto const fresh = b.threads.size() != count;
  if (fresh) b.threads = std::vector<thread>(count);
  b.warp_epochs.assign((count + 31) / 32, 1);
  b.live = count;
  b.busy = true;
  for (unsigned i = 0; i < count; ++i) {
    auto& t = b.threads[i];
    t.index = i, t.lane = i % 32, t.warp = i / 32, t.in = &b;
    t.state = doing::running;
    t.fenced = 0;
    t.calls.clear();
    enter(t, l.f, l.params);
    for (auto const& [slot, s] : l.f.specials) t.r[slot] = special_value(l, b, t, s);
  }
}

void release_barrier(block& b) {
  // All that have not ended wait at it, or as many as it says.
  for (auto& first : b.threads) {
    if (first.state != doing::at_barrier) continue;
    auto const id = first.barrier;
    std::uint32_t arrived = 0;
    for (auto& t : b.threads) arrived += t.state == doing::at_barrier && t.barrier == id;
    auto const wanted = first.barrier_count ? first.barrier_count : b.live;
    if (arrived < wanted) continue;
    for (auto& t : b.threads) {
      if (t.state != doing::at_barrier || t.barrier != id) continue;
      if (t.waits_at != first.waits_at && opt.check)
        throw fault("divergent barrier: thread " + std::to_string(t.index) + " waits at '" + t.waits_at->text +
                    "' of line " + std::to_string(t.waits_at->line) + ", thread " + std::to_string(first.index) +
                    " at that of line " + std::to_string(first.waits_at->line));
    }
    if (first.waits_at->mode != 0) {  // bar.red
      std::uint32_t count = 0, total = 0;
      for (auto& t : b.threads)
        if (t.state == doing::at_barrier && t.barrier == id) {
          auto const p = (t.r[t.waits_at->c] & 1) != (t.waits_at->imm & 1);
          count += p, ++total;
        }
      for (auto& t : b.threads)
        if (t.state == doing::at_barrier && t.barrier == id) {
          auto const m = t.waits_at->mode;
          t.r[t.waits_at->d] = m == 1 ? count : m == 2 ? count == total : count > 0;
        }
    }
    for (auto& t : b.threads)
      if (t.state == doing::at_barrier && t.barrier == id) t.state = doing::running;
    ++b.epoch;
    return;
  }
}

/// Runs a thread until it waits, ends, or its quantum is over. Returns what it ran.
std::uint64_t go(thread& t) {
  auto& machine = *t.in->of;
  machine.current = &t;
  std::uint64_t const most = opt.quantum ? opt.quantum : ~std::uint64_t{0};
  std::uint64_t n = 0;
  while (n < most) {
    auto const& i = *t.pc;
    machine.current_inst = &i;
    ++t.pc;
    ++n;
    if (i.pred >= 0 && ((t.r[i.pred] & 1) != 0) == i.negated) continue;
    if (!i.run(t, i)) break;
  }
  machine.instructions += n;
  if (t.state == doing::ended) --t.in->live;
  return n;
}

bool pass(block& b) {
  auto& order = b.of->order;
  auto const n = static_cast<unsigned>(b.threads.size());
  order.resize(n);
  std::iota(order.begin(), order.end(), 0u);
  if (opt.order == 1) std::reverse(order.begin(), order.end());
  if (opt.order > 1) std::shuffle(order.begin(), order.end(), b.of->random_order);
  auto moved = false;
  for (auto const i : order) {
    if (b.threads[i].state == doing::running) go(b.threads[i]), moved = true;
  }
  if (b.live == 0) b.busy = false;
  else release_barrier(b);
  return moved;
}

}  // namespace

bool wait_at_barrier(thread& t, inst const& i, std::uint32_t id, std::uint32_t count) {
  t.state = doing::at_barrier;
  t.waits_at = &i;
  t.barrier = id, t.barrier_count = count;
  return false;
}

void run_warp_op(block& b, unsigned warp, std::uint32_t mask, inst const& i);

bool wait_for_warp(thread& t, inst const& i, std::uint32_t mask) {
  if (!(mask >> t.lane & 1)) throw fault("a lane that its mask does not name: mask " + hex(mask));
  t.state = doing::with_warp;
  t.waits_at = &i;
  t.mask = mask;
  auto& b = *t.in;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    auto const other = t.warp * 32 + lane;
    if (other >= b.threads.size() || b.threads[other].state == doing::ended)
      throw fault("mask " + hex(mask) + " names a lane that has ended");
    auto& o = b.threads[other];
    if (o.state != doing::with_warp) return false;
    if (o.waits_at != &i || o.mask != mask)
      throw fault("lanes of one mask wait at different instructions: '" + o.waits_at->text + "' and '" + i.text + "'");
  }
  run_warp_op(b, t.warp, mask, i);
  ++b.warp_epochs[t.warp];
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) b.threads[t.warp * 32 + lane].state = doing::running;
  return true;
}

machine::machine(std::uint64_t memory_bytes, heap& pinned)
    : memory(memory_bytes, heap::visible::to_device), running_(std::make_unique<running>()) {
  running_->memory = &memory;
  running_->pinned = &pinned;
}
machine::~machine() {
  for (auto const& [h, p] : running_->shadows) munmap(p, heap::range * sizeof(global_shadows));
  for (auto const& b : running_->blocks) munmap(b->shared, arena);
}
std::uint64_t machine::instructions() const { return running_->instructions; }
std::uint64_t machine::kernels() const { return running_->kernels; }

void machine::run(function& f, dims grid, dims size, std::uint64_t dynamic_shared, unsigned char const* params) {
  decode(f);
  auto& now = *running_;
  ++now.kernels;
  now.releases.clear();
  now.current = nullptr;
  auto& blocks = now.blocks;
  if (blocks.empty()) now.random_order.seed(opt.order);
  while (blocks.size() < opt.resident) {
    auto b = std::make_unique<block>();
    auto* const p = mmap(nullptr, arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (p == MAP_FAILED) throw fault("no memory below 4 GiB");
    b->shared = static_cast<unsigned char*>(p);
    b->shadows.resize(arena);
    b->of = &now;
    blocks.push_back(std::move(b));
  }
  std::uint64_t param_bytes = 0;
  for (auto const& p : f.params) param_bytes = std::max(param_bytes, p.offset + p.size);
  auto const l = launch{f, grid, size, dynamic_shared, params, param_bytes};
  auto const count = std::uint64_t{grid.x} * grid.y * grid.z;
  auto const before = now.instructions;
  std::uint64_t next = 0;
  for (auto& b : blocks) {
    b->busy = false;
    b->threads.clear();
    b->shared_bytes = dynamic_shared ? (f.shared_bytes + 127) / 128 * 128 + dynamic_shared : f.shared_bytes;
  }
  try {
    for (;;) {
      auto moved = false, any = false;
      for (auto& b : blocks) {
        if (!b->busy) {
          if (next >= count) continue;
          begin(l, *b, next++);
        }
        any = true;
        auto const stuck = !pass(*b);
        if (!stuck) moved = true;
      }
      if (!any) break;
      if (!moved) {
        // A barrier may have been released after the last pass.
        auto ready = false;
        for (auto& b : blocks)
          if (b->busy)
            for (auto& t : b->threads) ready = ready || t.state == doing::running;
        if (!ready) {
          now.current = nullptr;
          throw fault("deadlock: threads wait for others that have ended or wait elsewhere");
        }
      }
    }
  } catch (fault const& e) {
    std::string where = " in " + f.name;
    if (now.current) {
      auto& b = *now.current->in;
      where += ", block " + std::to_string(b.at.x) + "," + std::to_string(b.at.y) + "," + std::to_string(b.at.z) +
               ", thread " + std::to_string(now.current->index) + ": '" + now.current_inst->text + "' of line " +
               std::to_string(now.current_inst->line);
    }
    throw fault(e.what() + where, e.what_kind);
  }
  if (opt.trace)
    std::fprintf(stderr, "emulator: %llu blocks of %u, %llu instructions: %s\n", static_cast<unsigned long long>(count),
                 size.x * size.y * size.z, static_cast<unsigned long long>(now.instructions - before), f.name.c_str());
}

}  // namespace emulator
