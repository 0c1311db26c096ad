// tests/emulator/ptx/fuse.hpp — multiplications and additions become one operation, as ptxas may make of them.
#pragma once

#include "ptx/module.hpp"

namespace emulator {

/// Of mul and add, or sub, that say no rounding. Counts them in the function.
void fuse(function& f);

}  // namespace emulator
