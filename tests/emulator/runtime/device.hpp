// tests/emulator/runtime/device.hpp — the devices of the process, and the one that is a thread's current one.
#pragma once

#include "ptx/machine.hpp"
#include "runtime/stream.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace emulator {

struct device {
  static constexpr std::size_t memory_bytes = std::size_t{8} << 30;

  explicit device(int index);

  int const number;
  CUstream_st& legacy;  ///< the default stream
  machine ptx;
  cudaError_t fault = cudaSuccess;  ///< of a kernel: no work runs after it, and every call returns it
};

int device_count();
device& device_of(int number);
device& current_device();

/// The stream of a handle, which may name the default one of the current device.
CUstream_st& stream_of(cudaStream_t handle);

/// Waits for all that its streams have been given.
void wait_for(device const& d);

}  // namespace emulator
