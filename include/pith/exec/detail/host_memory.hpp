// pith/exec/detail/host_memory.hpp — the synchronous memory functions of host executors.
#pragma once

#include <pith/core/span.hpp>
#include <pith/core/workspace.hpp>

#include <cstddef>
#include <cstring>
#include <new>

namespace pith { inline namespace PITH_ABI { namespace detail {

struct host_memory {
  using space = host_space;

  void copy(void* to, void const* from, std::size_t bytes) const {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void fill(void* to, std::byte value, std::size_t bytes) const {
    if (bytes > 0) std::memset(to, std::to_integer<int>(value), bytes);
  }
  void upload(void* to, void const* from, std::size_t bytes) const { copy(to, from, bytes); }
  void download(void* to, void const* from, std::size_t bytes) const { copy(to, from, bytes); }
  void wait() const {}
  static constexpr int device_number() { return 0; }
  static constexpr bool is_capturing() { return false; }

  void* allocate(std::size_t bytes) const { return ::operator new(bytes, std::align_val_t(scratch_alignment)); }
  void deallocate(void* memory, std::size_t) const noexcept {
    ::operator delete(memory, std::align_val_t(scratch_alignment));
  }
};

}}}  // namespace pith::PITH_ABI::detail
