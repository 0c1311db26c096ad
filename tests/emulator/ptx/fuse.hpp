// tests/emulator/ptx/fuse.hpp — multiplications and additions become one operation, as ptxas may make of them.
#pragma once

#include "ptx/module.hpp"

namespace emulator {

/// Fuses mul with add or sub where neither has a rounding modifier, and counts them in the function.
void fuse(function& f);

}  // namespace emulator
