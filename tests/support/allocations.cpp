// tests/support/allocations.cpp — replaces new and delete, in programs that have this source.
#include "support/allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

std::atomic<long> support::allocations = 0;

namespace {

void* counted(std::size_t bytes, std::size_t alignment) {
  ++support::allocations;
  if (void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept try {
  return operator new(bytes);
} catch (std::bad_alloc const&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
