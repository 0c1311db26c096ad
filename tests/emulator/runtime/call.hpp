// tests/emulator/runtime/call.hpp — what all calls of the runtime have in common: one at a time, and an error state.
#pragma once

#include "runtime/device.hpp"
#include "runtime/schedule.hpp"

#include <cuda_runtime_api.h>

namespace emulator {

/// The error becomes the thread's last one.
cudaError_t remembered(cudaError_t status);

/// f() returns an error; a device that had a fault makes every call fail.
template <class F>
cudaError_t call(F const& f) {
  if (schedule::is_in_work()) return cudaErrorNotPermitted;
  auto const inside = schedule::of_process().enter();
  cudaError_t const status = f();
  return remembered(status == cudaSuccess ? current_device().fault : status);
}

}  // namespace emulator
