// tests/emulator/ptx/block.hpp — a block and its threads while they run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ptx/machine.hpp"
#include "ptx/module.hpp"
#include "ptx/records.hpp"

namespace emulator {

struct block;

/// A function that a thread has entered.
struct activation {
  function* f = nullptr;
  std::unique_ptr<std::uint64_t[]> frame, local, params;
  instruction const* call = nullptr;  // what called it
  instruction const* return_to = nullptr;
};

struct thread {
  enum class state : std::uint8_t { running, at_barrier, with_warp, ended };

  std::uint64_t* slots = nullptr;  // of the frame of the innermost activation
  instruction const* next = nullptr;
  state is = state::running;
  unsigned index = 0, lane = 0, warp = 0;
  block* in = nullptr;
  std::vector<activation> calls;

  // What it waits for.
  instruction const* waits_at = nullptr;
  std::uint32_t mask = 0;                        // lanes of its warp
  std::uint32_t barrier = 0, barrier_count = 0;  // 0: all that have not ended

  std::uint32_t fenced = 0;                               // the epoch of its last fence
  std::map<std::uint32_t, publication> read_since_fence;  // of other blocks, by their number
};

/// The arguments of a launch.
struct launch {
  function& f;
  dims grid, size;
  std::uint64_t dynamic_shared;
  unsigned char const* params;
  std::uint64_t param_bytes;
};

struct block {
  explicit block(running& machine);
  ~block();

  running* of;
  std::vector<thread> threads;
  dims at, size;
  std::uint32_t number = 0;
  unsigned live = 0;  // threads that have not ended
  bool busy = false;

  unsigned char* shared;
  std::uint64_t shared_bytes = 0;
  std::vector<unsigned char> states;  // of bytes of shared memory, as a heap has them
  unsigned char const* params = nullptr;
  std::uint64_t param_bytes = 0;

  // Which accesses are ordered: an epoch ends at each barrier of the block, and is never that of another block; warps
  // count what synchronised them.
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> warp_epochs;
  static constexpr std::uint64_t max_shared = 256 * 1024;
  record_store shared_records{max_shared};
  std::map<std::uint32_t, publication> seen;  // of other blocks, by their number
};

void begin(block& b, launch const& l, std::uint64_t number);

/// Runs each thread that can run until it waits, ends or has used its quantum; whether there was one.
bool run_threads(block& b);

void enter(thread& t, function& f);
void leave(thread& t);

/// Where an instruction comes from that the innermost function of a thread has.
origin const& origin_of(thread const& t, instruction const& i);

}  // namespace emulator
