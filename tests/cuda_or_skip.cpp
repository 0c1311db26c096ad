// tests/cuda_or_skip.cpp — ends the program with 77, which ctest counts as skipped, where no device can be used.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct cuda_or_skip {
  cuda_or_skip() {
    int devices = 0;
    cudaError_t const status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess && devices > 0) return;
    std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorString(status));
    std::fflush(stdout);
    std::_Exit(77);
  }
} const check;

}  // namespace
