// tests/emulator/runtime/kernel.cpp — fat binaries, which nvcc puts into programs, and the PTX in them.
#include "runtime/kernel.hpp"

#include "runtime/call.hpp"
#include "runtime/device.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulator {

namespace {

struct fat_header {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};
struct fat_entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, others[5];
  std::uint64_t flags;

  bool is_ptx() const { return kind == 1; }
  bool is_compressed() const { return compressed_bytes != 0 || (flags & 0xf000) != 0; }
};

template <class T>
T read(unsigned char const* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The text of all PTX in a fat binary.
std::vector<char const*> ptx_of(unsigned char const* at) {
  auto texts = std::vector<char const*>();
  auto const header = read<fat_header>(at);
  at += header.header_bytes;
  for (auto const* const end = at + header.bytes; at < end;) {
    auto const entry = read<fat_entry>(at);
    if (entry.is_ptx() && entry.is_compressed()) {
      std::fprintf(stderr, "emulator: the PTX of the program is compressed: compile it by nvcc --no-compress\n");
      std::abort();
    }
    if (entry.is_ptx()) texts.push_back(reinterpret_cast<char const*>(at + entry.header_bytes));
    at += entry.header_bytes + entry.bytes;
  }
  return texts;
}

using modules = std::vector<std::unique_ptr<module>>;

struct fat_binary {
  unsigned char const* data;
  std::map<int, modules> of_device = {};

  /// Parsed when a device needs them first.
  modules const& on(device& d) {
    auto const [found, is_new] = of_device.try_emplace(d.number);
    if (!is_new) return found->second;
    for (auto const* text : ptx_of(data)) found->second.push_back(parse(text, d.ptx.memory));
    if (found->second.empty())
      std::fprintf(stderr, "emulator: the program has machine code alone: compile it by nvcc -arch=sm_90, which adds PTX\n");
    return found->second;
  }
};

struct registered_kernel {
  fat_binary* in;
  std::string name;
};
std::map<void const*, registered_kernel>& kernels() {
  static auto& all = *new std::map<void const*, registered_kernel>;
  return all;
}

}  // namespace

function* kernel_of(void const* host) {
  auto const known = kernels().find(host);
  if (known == kernels().end()) return nullptr;
  for (auto const& m : known->second.in->on(current_device())) {
    auto const found = m->functions.find(known->second.name);
    if (found != m->functions.end()) return found->second.get();
  }
  return nullptr;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

/// The wrapper is a magic number, a version and the address of the fat binary.
void** __cudaRegisterFatBinary(void* wrapper) {
  auto const inside = schedule::of_process().enter();
  auto const* const words = static_cast<unsigned char const*>(wrapper);
  return reinterpret_cast<void**>(new fat_binary{read<unsigned char const*>(words + 8)});
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void** fat, char const* host, char*, char const* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  auto const inside = schedule::of_process().enter();
  kernels()[host] = {reinterpret_cast<fat_binary*>(fat), name};
}
/// Variables are in the modules; the host does not read them.
void __cudaRegisterVar(void**, char*, char*, char const*, int, std::size_t, int, int) {}

}  // extern "C"
