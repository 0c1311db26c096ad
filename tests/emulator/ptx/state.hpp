// state.hpp — threads and blocks while they run.
#pragma once

#include <cstring>
#include <deque>

#include "ptx/machine.hpp"

namespace emulator {

struct block;
struct running;

enum class doing : std::uint8_t { running, at_barrier, with_warp, ended };

struct activation {
  function* f;
  std::unique_ptr<std::uint64_t[]> frame;
  std::unique_ptr<std::uint64_t[]> local, params;
  inst const* back = nullptr;
  inst const* call = nullptr;
};

struct thread {
  std::uint64_t* r = nullptr;
  inst const* pc = nullptr;
  doing state = doing::running;
  unsigned index = 0, lane = 0, warp = 0;
  block* in = nullptr;
  std::deque<activation> calls;
  inst const* waits_at = nullptr;
  std::uint32_t mask = 0;
  std::uint32_t barrier = 0, barrier_count = 0;
  std::uint64_t fenced = 0;  // the block's epoch at the last fence
};

/// What a block made visible to others by an atomic operation behind a fence.
struct release {
  std::uint64_t epoch;
  std::uint16_t thread;
};

struct shadow {
  std::uint64_t written = 0, read = 0;  // epochs
  std::uint32_t written_warp = 0, read_warp = 0;  // the warp's count of synchronisations then
  std::uint16_t writer = 0, reader = 0;
  bool atomic = false, readers = false;  // readers: of several warps
};

struct block {
  running* of = nullptr;
  std::vector<thread> threads;
  unsigned char* shared = nullptr;
  std::uint64_t shared_bytes = 0;
  std::vector<unsigned char> states;  // of the bytes of shared memory, as in a heap
  unsigned char const* params = nullptr;
  std::uint64_t param_bytes = 0;
  std::vector<shadow> shadows;
  std::vector<std::uint32_t> warp_epochs;
  std::uint64_t epoch = 1;
  dims at;
  std::uint32_t number = 0;
  std::map<std::uint32_t, release> seen;  // of other blocks
  unsigned live = 0;
  bool busy = false;
};

/// What one machine is doing.
struct running {
  heap* memory = nullptr;
  heap* pinned = nullptr;
  std::map<heap*, global_shadows*> shadows;
  std::vector<std::unique_ptr<block>> blocks;
  std::vector<unsigned> order;  // of the threads of a block
  std::mt19937 random_order;
  std::unordered_map<std::uint64_t, std::map<std::uint32_t, release>> releases;  // of this launch, by address
  thread* current = nullptr;
  inst const* current_inst = nullptr;
  std::uint64_t instructions = 0, kernels = 0;
};

std::string hex(std::uint64_t v);
/// Bounds, alignment and races; the memory of an access.
unsigned char* touch(thread& t, inst const& i, std::uint64_t address, unsigned bytes, bool writes, bool atomic,
                     void const* value = nullptr);
bool wait_for_warp(thread& t, inst const& i, std::uint32_t mask);
bool wait_at_barrier(thread& t, inst const& i, std::uint32_t id, std::uint32_t count);
void enter(thread& t, function& f, unsigned char const* entry_params);
void leave(thread& t);

}  // namespace emulator
