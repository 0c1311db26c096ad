// tests/emulator/ptx/heap.hpp — memory that kernels can address: its allocations, and which of its bytes were written.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace emulator {

/// The memory of a device, or the pinned memory of the host.
///
/// A device's addresses are not mapped for the host, so that host code that dereferences a device pointer ends with a
/// segmentation fault, as it does with a GPU. The bytes lie at a fixed distance from their addresses, and so do their
/// states. Allocations are never adjacent: what overruns one reaches bytes that are not allocated.
class heap {
 public:
  enum class visible { to_device, to_host_too };
  heap(std::uint64_t capacity, visible to);
  ~heap();
  heap(heap const&) = delete;
  heap& operator=(heap const&) = delete;

  static constexpr char const* variable = "a variable of a module";  // which lives as long as the device

  /// n bytes of garbage, aligned to 256, or null where the capacity is used up. what: a noun for messages.
  void* allocate(std::uint64_t n, char const* what);
  /// Whether p was allocated; its bytes are then not to be used any more.
  bool release(void* p);

  bool holds(void const* p, std::uint64_t n) const;
  /// Where the host finds the byte of an address.
  unsigned char* bytes(void const* p) const { return bytes_of(number(p)); }
  /// Marks bytes as written.
  void define(void const* p, std::uint64_t n);
  /// Marks bytes as written where those that they are a copy of were.
  void define_as(void const* p, heap const& other, void const* from, std::uint64_t n);
  /// Which allocation an address lies in, or after.
  std::string describe(std::uint64_t address) const;

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t used() const { return used_; }
  struct allocation {
    std::uint64_t size;
    char const* what;
  };
  std::map<std::uint64_t, allocation> const& allocations() const { return allocations_; }

  // For each access of a kernel.
  static constexpr unsigned char allocated = 1, written = 3;  // states; 0: not allocated
  bool spans(std::uint64_t address, std::uint64_t n) const { return address - first_ <= range - n; }
  unsigned char* bytes_of(std::uint64_t address) const { return reinterpret_cast<unsigned char*>(address + to_bytes_); }
  unsigned char* states_of(std::uint64_t address) const { return states_ + (address - first_); }
  std::uint64_t offset_of(std::uint64_t address) const { return address - first_; }

  static constexpr std::uint64_t range = std::uint64_t{1} << 36;  // of addresses

 private:
  static std::uint64_t number(void const* p) { return reinterpret_cast<std::uint64_t>(p); }

  std::uint64_t capacity_, used_ = 0, next_ = 0;
  std::uint64_t first_, to_bytes_;
  unsigned char *addresses_, *data_, *states_;
  std::map<std::uint64_t, allocation> allocations_;
  std::map<std::uint64_t, std::deque<std::uint64_t>> released_;  // addresses by size, to be used again
};

}  // namespace emulator
