// tests/emulator/ptx/records.cpp — see records.hpp.
#include "ptx/records.hpp"

#include <sys/mman.h>

#include "ptx/fault.hpp"

namespace emulator {

namespace {

template <class T>
T* reserved(std::uint64_t n) {
  constexpr auto flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  auto* const p = mmap(nullptr, n * sizeof(T), PROT_READ | PROT_WRITE, flags, -1, 0);
  if (p == MAP_FAILED) throw fault("no addresses for the records of accesses");
  return static_cast<T*>(p);
}

}  // namespace

record_store::~record_store() {
  if (!words_) return;
  munmap(words_, range_ / word * sizeof *words_);
  munmap(bytes_, range_ * sizeof *bytes_);
  munmap(splits_, range_ / word);
}

void record_store::reserve() {
  words_ = reserved<records>(range_ / word);
  bytes_ = reserved<records>(range_);
  splits_ = reserved<bool>(range_ / word);
}

void record_store::forget() {
  if (!words_) return;
  madvise(words_, range_ / word * sizeof *words_, MADV_DONTNEED);
  madvise(bytes_, range_ * sizeof *bytes_, MADV_DONTNEED);
  madvise(splits_, range_ / word, MADV_DONTNEED);
}

bool record_store::is_split(std::uint64_t offset) {
  if (!words_) reserve();
  return splits_[offset / word];
}

void record_store::split(std::uint64_t offset) {
  if (is_split(offset)) return;
  splits_[offset / word] = true;
  auto const first = offset / word * word;
  for (std::uint64_t k = 0; k < word; ++k) bytes_[first + k] = of_word(offset);
}

bool record_store::join(std::uint64_t offset, std::uint32_t epoch) {
  auto const first = offset / word * word;
  for (std::uint64_t k = 0; k < word; ++k)
    if (bytes_[first + k].written.epoch >= epoch || bytes_[first + k].read.epoch >= epoch) return false;
  splits_[offset / word] = false;
  of_word(offset) = {};
  return true;
}

}  // namespace emulator
