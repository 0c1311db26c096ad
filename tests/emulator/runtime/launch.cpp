// tests/emulator/runtime/launch.cpp — kernels that are launched, the limits of a launch, and faults.
#include "ptx/machine.hpp"
#include "runtime/call.hpp"
#include "runtime/device.hpp"
#include "runtime/kernel.hpp"
#include "runtime/submit.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace emulator;

namespace {

struct configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<configuration> configurations;

using bytes = std::vector<unsigned char>;

bytes packed(function const& f, void* const* arguments) {
  auto all = bytes();
  for (auto const& p : f.params) all.resize(std::max<std::size_t>(all.size(), p.offset + p.size));
  for (std::size_t k = 0; k < f.params.size(); ++k)
    std::memcpy(all.data() + f.params[k].offset, arguments[k], f.params[k].size);
  return all;
}

cudaError_t error_of(fault const& found) {
  if (found.what_kind == fault::kind::misaligned) return cudaErrorMisalignedAddress;
  return found.what_kind == fault::kind::illegal_address ? cudaErrorIllegalAddress : cudaErrorLaunchFailure;
}

dims of(dim3 d) { return {d.x, d.y, d.z}; }

/// A fault is the device's from then on.
void run(device& d, function& f, configuration const& c, bytes const& arguments) {
  try {
    d.ptx.run(f, of(c.grid), of(c.block), c.shared, arguments.data());
  } catch (fault const& found) {
    std::fprintf(stderr, "emulator: %s\n", found.what());
    d.fault = error_of(found);
  }
}

cudaError_t check_limits(function const& f, configuration const& c) {
  auto const threads = std::uint64_t{c.block.x} * c.block.y * c.block.z;
  auto const blocks = std::uint64_t{c.grid.x} * c.grid.y * c.grid.z;
  if (blocks == 0 || c.grid.x > 0x7fffffffu || c.grid.y > 65535 || c.grid.z > 65535)
    return cudaErrorInvalidConfiguration;
  if (threads == 0 || threads > 1024 || c.block.z > 64) return cudaErrorInvalidConfiguration;
  if (threads > f.max_threads) return cudaErrorLaunchOutOfResources;
  return c.shared > static_cast<std::size_t>(f.max_dynamic_shared) ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t launch(function* f, configuration const& c, void** arguments) {
  if (f == nullptr) return cudaErrorInvalidDeviceFunction;
  if (stream_of(c.stream).device != current_device().number) return cudaErrorInvalidResourceHandle;
  if (auto const status = check_limits(*f, c); status != cudaSuccess) return status;
  auto const values = packed(*f, arguments);
  constexpr std::size_t max_argument_bytes = 4096;
  if (values.size() > max_argument_bytes) return cudaErrorInvalidValue;
  return submit(c.stream, once([&d = current_device(), f, c, values] { run(d, *f, c, values); }));
}

cudaFuncAttributes attributes(function const& f) {
  auto a = cudaFuncAttributes();
  a.sharedSizeBytes = f.shared_bytes, a.localSizeBytes = f.local_bytes;
  a.maxThreadsPerBlock = static_cast<int>(f.max_threads), a.numRegs = 32;
  a.ptxVersion = a.binaryVersion = f.owner->architecture;
  a.maxDynamicSharedSizeBytes = f.max_dynamic_shared;
  return a;
}

}  // namespace

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  auto const c = configurations.back();
  configurations.pop_back();
  *grid = c.grid, *block = c.block, *shared = c.shared, *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
/// A kernel's handle is the address of its host function.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(void const* host, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return call([=] { return launch(kernel_of(host), {grid, block, shared, stream}, arguments); });
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<void const*>(kernel), grid, block, arguments, shared, stream);
}

cudaError_t cudaFuncSetAttribute(void const* host, cudaFuncAttribute which, int value) {
  return call([=] {
    auto* const f = kernel_of(host);
    if (f == nullptr) return cudaErrorInvalidDeviceFunction;
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    decode(*f);
    constexpr int max_shared_bytes = 227 * 1024;
    if (value < 0 || value + static_cast<int>(f->shared_bytes) > max_shared_bytes) return cudaErrorInvalidValue;
    f->max_dynamic_shared = value;
    return cudaSuccess;
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, void const* host) {
  return call([=] {
    auto* const f = kernel_of(host);
    if (f == nullptr) return cudaErrorInvalidDeviceFunction;
    decode(*f);
    *found = attributes(*f);
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void const*, int threads, std::size_t) {
  *blocks = 2048 / std::max(threads, 64);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void const* host, int threads,
                                                                   std::size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, threads, shared);
}

}  // extern "C"
