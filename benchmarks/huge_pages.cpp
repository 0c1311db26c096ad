// benchmarks/huge_pages.cpp — allocates large blocks of a program in 2 MiB pages: inputs, payloads and residuals.
#include "yardstick.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

// Executors allocate with an alignment. With 4 KiB pages a third of memcpy's time goes into page tables.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  auto const large = bytes >= bench::huge_page;
  auto const to = large ? bench::huge_page : static_cast<std::size_t>(alignment);
  auto const rounded = pith::detail::align_up(bytes, to);
  auto* const memory = std::aligned_alloc(to, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  if (large) madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
