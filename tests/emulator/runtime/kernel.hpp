// tests/emulator/runtime/kernel.hpp — the PTX of a kernel, identified by the address of its host function.
#pragma once

#include "ptx/machine.hpp"

namespace emulator {

/// On the current device; nullptr where no program has such a kernel.
function* kernel_of(void const* host);

}  // namespace emulator
