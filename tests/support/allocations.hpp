// tests/support/allocations.hpp — how often a program has allocated; needs support/allocations.cpp.
#pragma once

#include <atomic>

namespace support {

extern std::atomic<long> allocations;

}  // namespace support
