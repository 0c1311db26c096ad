// tests/emulator/nccl/error.hpp — results of calls, in words.
#pragma once

#include "nccl/member.hpp"

#include <string>

namespace emulator::nccl {

char const* name_of(operation what);
char const* name_of(ncclDataType_t type);

/// Prints why and keeps it for ncclGetLastError; returns the code.
ncclResult_t report(ncclResult_t code, std::string const& why);

}  // namespace emulator::nccl
