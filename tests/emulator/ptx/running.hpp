// tests/emulator/ptx/running.hpp — what a machine is doing.
#pragma once

#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "ptx/block.hpp"

namespace emulator {

struct running {
  running(heap& own, heap& shared)
      : memory(own), pinned(shared), global_records(heap::range), pinned_records(heap::range) {}

  heap& memory;
  heap& pinned;
  record_store global_records, pinned_records;
  std::vector<std::unique_ptr<block>> blocks;
  std::vector<unsigned> order;  // of the threads of a block
  std::mt19937 random_order{opt.order};
  std::uint32_t epoch = 0, first_epoch = 0;  // the last one that began, and the first of this launch
  /// Of this launch: by address, what each block published there.
  std::unordered_map<std::uint64_t, std::map<std::uint32_t, publication>> publications;
  thread* current = nullptr;
  instruction const* current_instruction = nullptr;
  std::uint64_t instructions = 0, kernels = 0, fused = 0;
  std::uint64_t forgotten = 0;  // instructions when records were last forgotten
};

}  // namespace emulator
