// tests/emulator/ptx/records.hpp — who accessed a byte last, which finds races.
#pragma once

#include <cstdint>

namespace emulator {

/// An access of a byte; epochs are those of block.hpp.
struct record {
  std::uint32_t epoch = 0, warp_epoch = 0, block = 0, line = 0;  // line: of the PTX
  std::uint16_t thread = 0;
  bool atomic = false;
  bool several = false;  // threads of several warps read it in this epoch
};
struct records {
  record written, read;
};

/// A publication of a block by an atomic operation after a fence: it makes all accesses before the epoch visible, and
/// those of the thread in the epoch.
struct publication {
  std::uint32_t epoch;
  std::uint16_t thread;
};

/// Records of a range of memory: one for a word of four bytes until an access of less splits it into one for each byte.
/// Memory is used for words that are accessed.
class record_store {
 public:
  static constexpr std::uint64_t word = 4;

  explicit record_store(std::uint64_t range) : range_(range) {}
  ~record_store();
  record_store(record_store const&) = delete;
  record_store& operator=(record_store const&) = delete;

  bool is_split(std::uint64_t offset);
  records& of_word(std::uint64_t offset) { return words_[offset / word]; }
  records& of_byte(std::uint64_t offset) { return bytes_[offset]; }

  void split(std::uint64_t offset);
  /// Makes a word whole again whose bytes were all accessed before an epoch, and forgets who did.
  bool join(std::uint64_t offset, std::uint32_t epoch);
  /// Gives all memory back.
  void forget();

 private:
  void reserve();

  std::uint64_t range_;
  records *words_ = nullptr, *bytes_ = nullptr;
  bool* splits_ = nullptr;
};

struct thread;
struct instruction;

/// What a thread does to n bytes.
struct access {
  instruction const& by;
  std::uint64_t address;
  unsigned n;
  bool writes, atomic;
  void const* value;  // what it writes; null for an atomic operation, whose result comes later
};

/// Both fault where an access is not ordered after another one of the same byte; then they record it. now: the bytes
/// that are there, which lie at an offset of what the records are of.
void check_shared_races(thread& t, access const& a, std::uint64_t offset, unsigned char const* now);
void check_global_races(thread& t, access const& a, record_store& all, std::uint64_t offset, unsigned char const* now);

}  // namespace emulator
