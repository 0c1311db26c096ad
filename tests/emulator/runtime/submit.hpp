// tests/emulator/runtime/submit.hpp — work for a stream in CUDA's order, or for the graph that is captured from it.
#pragma once

#include "runtime/stream.hpp"

#include <cuda_runtime_api.h>

namespace emulator {

/// The legacy default stream waits for the blocking streams of its device, and they for it.
cudaError_t submit(cudaStream_t stream, work run);

}  // namespace emulator
