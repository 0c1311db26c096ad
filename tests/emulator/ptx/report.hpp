// tests/emulator/ptx/report.hpp — where a thread is, in words.
#pragma once

#include <string>

#include "ptx/block.hpp"

namespace emulator {

/// "x.cu:12" or "x.cuh:3, inlined at x.cu:12"; empty without -lineinfo.
std::string source_of(module const& m, source_line const& s);

/// "PTX line 120" of the function that a thread is in, and the source line where it is known.
std::string line_of(thread const& t, std::uint32_t line);

/// Kernel, block, thread, PTX line, instruction and source line, in a line each.
std::string place_of(function const& kernel, thread const* t, instruction const* i);

}  // namespace emulator
