// tests/emulator/runtime/device.cpp — the devices of the process, and the one that is a thread's current one.
#include "runtime/device.hpp"

#include "runtime/call.hpp"
#include "runtime/memory.hpp"
#include "runtime/schedule.hpp"
#include "ptx/settings.hpp"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <vector>

namespace emulator {

namespace {

thread_local int current = 0;

std::deque<device>& devices() {
  static auto& all = *[] {
    auto* const made = new std::deque<device>;
    for (int i = 0; i < device_count(); ++i) made->emplace_back(i);
    return made;
  }();
  return all;
}

constexpr int shared_bytes = 48 * 1024, max_shared_bytes = 227 * 1024;

int attribute(cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: return 8;
    case cudaDevAttrMultiProcessorCount: return 8;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxSharedMemoryPerBlock: return shared_bytes;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return max_shared_bytes;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxGridDimX: return 0x7fffffff;
    default: return 0;
  }
}

cudaDeviceProp properties(int number) {
  auto p = cudaDeviceProp();
  std::snprintf(p.name, sizeof p.name, "PTX emulator %d", number);
  p.major = attribute(cudaDevAttrComputeCapabilityMajor);
  p.multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount);
  p.warpSize = attribute(cudaDevAttrWarpSize);
  p.maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
  p.maxThreadsPerMultiProcessor = attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  p.sharedMemPerBlock = shared_bytes, p.sharedMemPerBlockOptin = max_shared_bytes;
  p.totalGlobalMem = device::memory_bytes, p.l2CacheSize = 1 << 20;
  return p;
}

bool exists(int number) { return number >= 0 && number < device_count(); }

}  // namespace

device::device(int index)
    : number(index), legacy(schedule::of_process().add(index, true)), ptx(memory_bytes, pinned_memory()) {}

int device_count() {
  static auto const count = static_cast<int>(setting("DEVICES", 4));
  return count;
}
device& device_of(int number) { return devices()[static_cast<std::size_t>(number)]; }
device& current_device() { return device_of(current); }

CUstream_st& stream_of(cudaStream_t handle) {
  auto const is_default = handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
  return is_default ? current_device().legacy : *handle;
}

void wait_for(device const& d) {
  auto ends = std::vector<place>();
  for (auto const* s : schedule::of_process().streams_of(d.number)) ends.push_back(s->end());
  schedule::of_process().wait_until([&] { return std::ranges::all_of(ends, &place::is_reached); });
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  return call([=] {
    if (!exists(number)) return cudaErrorInvalidDevice;
    current = number;
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int number) {
  return call([=] {
    if (!exists(number)) return cudaErrorInvalidDevice;
    *found = properties(number);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int number) {
  return call([=] {
    if (!exists(number)) return cudaErrorInvalidDevice;
    *value = attribute(which);
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  return call([=] {
    *free_bytes = device::memory_bytes - current_device().ptx.memory.used();
    *total = device::memory_bytes;
    return cudaSuccess;
  });
}

}  // extern "C"
