// tests/emulator/ptx/waiting.cpp — see waiting.hpp.
#include "ptx/waiting.hpp"

#include "ptx/report.hpp"
#include "ptx/running.hpp"

namespace emulator {

namespace {

/// The threads of a block that wait at a barrier, in their order.
template <class F>
void for_waiting(block& b, std::uint32_t barrier, F const& f) {
  for (auto& t : b.threads)
    if (t.is == thread::state::at_barrier && t.barrier == barrier) f(t);
}

std::string place_of_wait(thread const& t) {
  return "thread " + std::to_string(t.index) + " waits at " + line_of(t, t.waits_at->line);
}

void check_convergence(block& b, thread const& first) {
  for_waiting(b, first.barrier, [&](thread& t) {
    if (t.waits_at == first.waits_at) return;
    b.of->current = &t, b.of->current_instruction = t.waits_at;
    throw fault("divergent barrier: " + place_of_wait(t) + ", " + place_of_wait(first));
  });
}

/// bar.red: how many predicates hold, whether all do, or whether one does.
void reduce(block& b, thread const& first) {
  enum : std::uint8_t { count = 1, all = 2 };
  std::uint32_t holding = 0, waiting = 0;
  for_waiting(b, first.barrier, [&](thread& t) {
    auto const& i = *t.waits_at;
    holding += (t.slots[i.c] & 1) != static_cast<std::uint64_t>(i.imm);
    ++waiting;
  });
  auto const mode = first.waits_at->mode;
  auto const result = mode == count ? holding : mode == all ? holding == waiting : holding > 0;
  for_waiting(b, first.barrier, [&](thread& t) { t.slots[t.waits_at->d] = result; });
}

bool is_complete(block& b, thread const& first) {
  std::uint32_t waiting = 0;
  for_waiting(b, first.barrier, [&](thread&) { ++waiting; });
  return waiting >= (first.barrier_count ? first.barrier_count : b.live);
}

/// Whether a lane waits at the same operation. Faults where it never can.
bool has_come(block& b, instruction const& i, std::uint32_t mask, unsigned index) {
  if (index >= b.threads.size() || b.threads[index].is == thread::state::ended)
    throw fault("ended lane: mask " + hex(mask) + " names lane " + std::to_string(index % 32) + ", which has ended");
  auto const& other = b.threads[index];
  if (other.is != thread::state::with_warp) return false;
  if (other.waits_at != &i || other.mask != mask)
    throw fault("divergent warp: lanes of mask " + hex(mask) + " wait at different instructions; " +
                place_of_wait(other));
  return true;
}

}  // namespace

bool wait_at_barrier(thread& t, instruction const& i, std::uint32_t barrier, std::uint32_t count) {
  t.is = thread::state::at_barrier;
  t.waits_at = &i;
  t.barrier = barrier, t.barrier_count = count;
  return false;
}

bool open_barrier(block& b) {
  for (auto const& first : b.threads) {
    if (first.is != thread::state::at_barrier || !is_complete(b, first)) continue;
    if (opt.check) check_convergence(b, first);
    if (first.waits_at->mode != 0) reduce(b, first);
    for_waiting(b, first.barrier, [](thread& t) { t.is = thread::state::running; });
    b.epoch = ++b.of->epoch;
    return true;
  }
  return false;
}

bool wait_for_warp(thread& t, instruction const& i, std::uint32_t mask) {
  if (!(mask >> t.lane & 1)) throw fault("foreign mask: mask " + hex(mask) + " does not name its own lane");
  t.is = thread::state::with_warp;
  t.waits_at = &i;
  t.mask = mask;
  auto& b = *t.in;
  auto const first = t.index - t.lane;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((mask >> lane & 1) && !has_come(b, i, mask, first + lane)) return false;
  run_for_warp(b, t.warp, mask, i);
  ++b.warp_epochs[t.warp];
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) b.threads[first + lane].is = thread::state::running;
  return true;
}

}  // namespace emulator
