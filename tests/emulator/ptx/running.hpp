// tests/emulator/ptx/running.hpp — what a machine is doing.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
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
  std::vector<std::uint32_t> order;   // of the threads of a block
  std::vector<std::uint32_t> starts;  // the blocks of a grid, in the order in which they begin
  std::mt19937 random_order{opt.order};
  std::uint32_t epoch = 0, first_epoch = 0;  // the last one that began, and the first of this launch
  /// Of this launch: by address, what each block published there.
  std::unordered_map<std::uint64_t, std::map<std::uint32_t, publication>> publications;
  thread* current = nullptr;
  instruction const* current_instruction = nullptr;
  std::uint64_t instructions = 0, kernels = 0, fused = 0;
  std::uint64_t forgotten = 0;  // instructions when records were last forgotten
};

/// order = 0, ..., n - 1, as PITH_EMULATOR_ORDER says.
inline void put_in_order(running& now, std::vector<std::uint32_t>& order, std::uint64_t n) {
  order.resize(n);
  std::iota(order.begin(), order.end(), 0u);
  if (opt.order == 1) std::reverse(order.begin(), order.end());
  if (opt.order > 1) std::shuffle(order.begin(), order.end(), now.random_order);
}

}  // namespace emulator
