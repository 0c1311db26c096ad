// tests/emulator/ptx/settings.hpp — settings of the emulator: variables of the environment, PITH_EMULATOR_<name>.
#pragma once

#include <cstdint>

namespace emulator {

/// The number that PITH_EMULATOR_<name> has, or `usual` where it is not set.
std::uint64_t setting(char const* name, std::uint64_t usual);

}  // namespace emulator
