// tests/emulator/ptx/heap.cpp — see heap.hpp.
#include "ptx/heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace emulator {

namespace {

constexpr std::uint64_t alignment = 256;

/// Addresses without memory: a page is made when it is first written.
unsigned char* reserve(int protection) {
  auto* const p = mmap(nullptr, heap::range, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::runtime_error("emulator: no addresses for the memory of a device");
  return static_cast<unsigned char*>(p);
}

std::uint64_t rounded(std::uint64_t n) { return (n + alignment - 1) / alignment * alignment; }

/// Gives whole pages back; they are zero when they are used again.
void forget(unsigned char* p, std::uint64_t n) {
  constexpr std::uint64_t page = 4096;
  auto const first = (reinterpret_cast<std::uint64_t>(p) + page - 1) / page * page;
  auto const last = (reinterpret_cast<std::uint64_t>(p) + n) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

heap::heap(std::uint64_t capacity, visible to)
    : capacity_(capacity),
      addresses_(to == visible::to_device ? reserve(PROT_NONE) : nullptr),
      data_(reserve(PROT_READ | PROT_WRITE)),
      states_(reserve(PROT_READ | PROT_WRITE)) {
  first_ = number(addresses_ ? addresses_ : data_);
  to_bytes_ = number(data_) - first_;
}

heap::~heap() {
  if (addresses_) munmap(addresses_, range);
  munmap(data_, range);
  munmap(states_, range);
}

void* heap::allocate(std::uint64_t n, char const* what) {
  auto const size = rounded(n) + alignment;
  if (n > capacity_ - used_ || n > range / 2) return nullptr;
  auto& old = released_[size];
  if (old.empty() && size > range - next_) return nullptr;
  auto const address = old.empty() ? first_ + next_ : old.front();
  if (old.empty())
    next_ += size;
  else
    old.pop_front();

  used_ += n;
  allocations_[address] = {n, what};
  std::memset(bytes_of(address), 0xcb, n);
  std::memset(states_of(address), allocated, n);
  return reinterpret_cast<void*>(address);
}

bool heap::release(void* p) {
  auto const at = allocations_.find(number(p));
  if (at == allocations_.end()) return false;
  auto const [address, gone] = *at;
  allocations_.erase(at);
  used_ -= gone.size;
  std::memset(states_of(address), 0, gone.size);
  forget(bytes_of(address), gone.size);
  forget(states_of(address), gone.size);
  released_[rounded(gone.size) + alignment].push_back(address);
  return true;
}

bool heap::holds(void const* p, std::uint64_t n) const {
  auto at = allocations_.upper_bound(number(p));
  if (at == allocations_.begin()) return false;
  --at;
  auto const offset = number(p) - at->first;
  return offset <= at->second.size && n <= at->second.size - offset;
}

void heap::define(void const* p, std::uint64_t n) { std::memset(states_of(number(p)), written, n); }

void heap::define_as(void const* p, heap const& other, void const* from, std::uint64_t n) {
  std::memmove(states_of(number(p)), other.states_of(number(from)), n);
}

std::string heap::describe(std::uint64_t address) const {
  auto at = allocations_.upper_bound(address);
  if (at == allocations_.begin()) return "in no allocation";
  --at;
  return "byte " + std::to_string(address - at->first) + " of " + at->second.what + " of " +
         std::to_string(at->second.size) + " bytes";
}

}  // namespace emulator
