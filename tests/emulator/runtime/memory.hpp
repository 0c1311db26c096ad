// tests/emulator/runtime/memory.hpp — memory of devices, and pinned memory of the host, which all devices share.
#pragma once

#include "ptx/heap.hpp"

#include <cstddef>

namespace emulator {

heap& pinned_memory();
/// The heap of an address; nullptr for pageable memory of the host.
heap* heap_of(void const* address);

/// Whether all of these bytes are allocated on some device or pinned; or may be used by one device.
bool is_allocated(void const* first, std::size_t bytes);
bool is_allocated_for(int device, void const* first, std::size_t bytes);

/// Where the host finds the bytes of an address of any kind.
unsigned char* bytes_at(void const* address);

/// Bytes that were never written stay so where they are copied to.
void move_bytes(void* to, void const* from, std::size_t bytes);
void fill_bytes(void* to, int value, std::size_t bytes);

}  // namespace emulator
