// tests/emulator/ptx/report.hpp — where a thread is, in words.
#pragma once

#include <string>

#include "ptx/block.hpp"

namespace emulator {

/// "PTX line 120" of the function that a thread is in, and with -lineinfo its source line.
std::string line_of(thread const& t, std::uint32_t line);

/// Kernel, block, thread, instruction and source lines, in a line each.
std::string place_of(function const& kernel, thread const* t, instruction const* i);

}  // namespace emulator
