// tests/emulator/ptx/access.hpp — an access of memory by a kernel, checked.
#pragma once

#include "ptx/block.hpp"

namespace emulator {

/// Where the host finds the bytes that a thread accesses. Faults where they are not its own, misaligned, read before
/// something has written them, or in a race.
unsigned char* touch(thread& t, access const& a);

}  // namespace emulator
