// tests/emulator/ptx/options.hpp — how kernels run and what is checked: settings of the machine.
#pragma once

#include <cstdint>

namespace emulator {

struct options {
  bool check;             // PITH_EMULATOR_CHECK=0: bounds, alignment, reads of unwritten bytes, barriers unchecked
  bool undefined;         // PITH_EMULATOR_UNDEFINED=0: bytes may be read that were never written
  unsigned races;         // PITH_EMULATOR_RACES: 0 none, 1 of shared memory, 2 of global memory too
  bool fuse;              // PITH_EMULATOR_FUSE=1: mul and add without .rn become fma, as ptxas may do
  unsigned order;         // PITH_EMULATOR_ORDER: threads and blocks run 0 upwards, 1 downwards, else in random orders
  std::uint64_t quantum;  // PITH_EMULATOR_QUANTUM: instructions a thread runs before the next one; 0: until it waits
  unsigned resident;      // PITH_EMULATOR_RESIDENT: blocks that run by turns
  bool trace;             // PITH_EMULATOR_TRACE=1: each launch is printed
};

options read_options();

inline options const opt = read_options();

}  // namespace emulator
