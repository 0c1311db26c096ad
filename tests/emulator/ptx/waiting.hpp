// tests/emulator/ptx/waiting.hpp — threads that wait for others of their block or warp.
#pragma once

#include "ptx/block.hpp"

namespace emulator {

/// Both: whether the thread can go on. The last lane that comes to a warp operation can, after running it for all lanes.
bool wait_at_barrier(thread& t, instruction const& i, std::uint32_t barrier, std::uint32_t count);
bool wait_for_warp(thread& t, instruction const& i, std::uint32_t mask);

/// Lets the threads go on that wait at a barrier to which all have come; whether there was one.
bool open_barrier(block& b);

/// For each lane of a mask that waits at a warp operation.
void run_for_warp(block& b, unsigned warp, std::uint32_t mask, instruction const& i);

}  // namespace emulator
