// tests/emulator/ptx/specials.hpp — special registers, whose values are set when a thread begins.
#pragma once

#include <string>

#include "ptx/block.hpp"
#include "ptx/module.hpp"

namespace emulator {

/// The register of a name such as %tid.x, or null.
special const* special_of(std::string const& name);

std::uint64_t special_value(launch const& l, block const& b, thread const& t, special s);

}  // namespace emulator
