// tests/emulator/runtime/leaks.cpp — what was made and not destroyed; reported at the end of the process.
#include "runtime/leaks.hpp"

#include "ptx/machine.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "ptx/settings.hpp"

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace emulator {

namespace {

constexpr auto kinds = static_cast<std::size_t>(object::count);
constexpr std::array<char const*, kinds> names = {"streams", "events", "graphs", "executable graphs", "communicators"};

/// Variables of modules are freed with the device.
bool report_leaks(heap const& memory, std::string const& of) {
  std::size_t n = 0, bytes = 0;
  for (auto const& [address, a] : memory.allocations()) {
    if (a.what == heap::variable) continue;
    ++n, bytes += a.size;
  }
  if (n == 0) return false;
  std::fprintf(stderr, "emulator: leak: memory of %s that was not freed: %zu bytes in %zu allocations\n", of.c_str(),
               bytes, n);
  return true;
}

/// Whether there are any.
bool report_leaks() {
  auto found = false;
  for (std::size_t k = 0; k < kinds; ++k) {
    auto const n = living(static_cast<object>(k));
    if (n > 0) std::fprintf(stderr, "emulator: leak: %s that were not destroyed: %ld\n", names[k], n);
    found |= n > 0;
  }
  for (int i = 0; i < device_count(); ++i)
    if (device_of(i).fault == cudaSuccess) found |= report_leaks(device_of(i).ptx.memory, "device " + std::to_string(i));
  found |= report_leaks(pinned_memory(), "the host");
  return found;
}

void print_statistics() {
  unsigned long long kernels = 0, instructions = 0, fused = 0;
  for (int i = 0; i < device_count(); ++i) {
    kernels += device_of(i).ptx.kernels();
    instructions += device_of(i).ptx.instructions();
    fused += device_of(i).ptx.fused();
  }
  std::fprintf(stderr, "emulator: %llu kernels, %llu instructions, %llu fused\n", kernels, instructions,
               fused);
}

/// After the statics of the program, whose libraries end last. A program with leaks fails.
struct at_end {
  ~at_end() {
    if (setting("STATS", 0) != 0) print_statistics();
    if (setting("LEAKS", 1) == 0 || !report_leaks()) return;
    std::fflush(nullptr);
    std::_Exit(1);
  }
} const reported;

}  // namespace

long& living(object kind) {
  static std::array<long, kinds> numbers;
  return numbers[static_cast<std::size_t>(kind)];
}

}  // namespace emulator
