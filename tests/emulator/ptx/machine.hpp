// tests/emulator/ptx/machine.hpp — a device: its memory, and a host thread that runs its grids.
//
// All addresses of a kernel are 64-bit numbers in one space: shared memory lies below 4 GiB, local memory is where the
// host has it, the memory of devices and pinned memory are heaps. So cvta is a move. A thread of a block runs until it
// waits at a barrier or for lanes of its warp, or until its quantum ends.
#pragma once

#include <cstdint>
#include <memory>

#include "ptx/fault.hpp"
#include "ptx/heap.hpp"
#include "ptx/module.hpp"
#include "ptx/options.hpp"

namespace emulator {

struct running;

struct dims {
  unsigned x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

/// Its users take turns. The functions that it runs are those of modules that were parsed for it.
class machine {
 public:
  /// pinned: memory of the host that devices share.
  machine(std::uint64_t memory_bytes, heap& pinned);
  ~machine();
  machine(machine const&) = delete;
  machine& operator=(machine const&) = delete;

  /// Runs a grid to its end, or throws a fault whose text names the place.
  void run(function& f, dims grid, dims block, std::uint64_t dynamic_shared, unsigned char const* params);
  std::uint64_t instructions() const;
  std::uint64_t kernels() const;
  std::uint64_t fused() const;

  heap memory;

 private:
  std::unique_ptr<running> running_;
};

}  // namespace emulator
