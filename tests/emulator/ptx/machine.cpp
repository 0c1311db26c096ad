// tests/emulator/ptx/machine.cpp — see machine.hpp.
#include "ptx/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "ptx/report.hpp"
#include "ptx/running.hpp"

namespace emulator {

namespace {

std::uint64_t end_of(std::vector<parameter> const& params) {
  std::uint64_t end = 0;
  for (auto const& p : params) end = std::max(end, p.offset + p.size);
  return end;
}

[[noreturn]] void report_deadlock(running& now) {
  now.current = nullptr;
  for (auto const& b : now.blocks)
    for (auto& t : b->threads)
      if (t.is != thread::state::ended) now.current = &t, now.current_instruction = t.waits_at;
  throw fault("deadlock: threads wait for others that have ended or wait elsewhere");
}

/// Accesses of earlier launches are ordered before those of the next one; their records would use memory for ever.
void forget_records(running& now) {
  constexpr std::uint64_t often = 1 << 28;
  if (now.instructions - now.forgotten < often) return;
  now.forgotten = now.instructions;
  now.global_records.forget();
  now.pinned_records.forget();
}

/// Runs the blocks of a grid, as many at a time as there are places for.
void run_blocks(running& now, launch const& l) {
  put_in_order(now, now.starts, l.grid.count());
  auto next = now.starts.begin();
  for (auto any = true; any;) {
    any = false;
    auto moved = false;
    for (auto& b : now.blocks) {
      if (!b->busy && next != now.starts.end()) begin(*b, l, *next++);
      if (!b->busy) continue;
      any = true;
      moved = run_threads(*b) || moved;
    }
    if (any && !moved) report_deadlock(now);
  }
}

}  // namespace

machine::machine(std::uint64_t memory_bytes, heap& pinned)
    : memory(memory_bytes, heap::visible::to_device), running_(std::make_unique<running>(memory, pinned)) {}

machine::~machine() = default;

std::uint64_t machine::instructions() const { return running_->instructions; }
std::uint64_t machine::kernels() const { return running_->kernels; }
std::uint64_t machine::fused() const { return running_->fused; }

void machine::run(function& f, dims grid, dims size, std::uint64_t dynamic_shared, unsigned char const* params) {
  auto& now = *running_;
  ++now.kernels;
  now.first_epoch = now.epoch + 1;
  now.publications.clear();
  forget_records(now);
  now.current = nullptr;
  auto const before = now.instructions;
  try {
    decode(f);
    now.fused += std::exchange(f.fused, 0);
    while (now.blocks.size() < opt.resident) now.blocks.push_back(std::make_unique<block>(now));
    for (auto& b : now.blocks) b->busy = false, b->threads.clear();
    run_blocks(now, {f, grid, size, dynamic_shared, params, end_of(f.params)});
  } catch (fault const& e) {
    throw fault(e.what() + place_of(f, now.current, now.current_instruction), e.what_kind);
  }
  if (opt.trace)
    std::fprintf(stderr, "emulator: %llu blocks of %llu threads, %llu instructions: %s\n",
                 static_cast<unsigned long long>(grid.count()), static_cast<unsigned long long>(size.count()),
                 static_cast<unsigned long long>(now.instructions - before), f.name.c_str());
}

}  // namespace emulator
