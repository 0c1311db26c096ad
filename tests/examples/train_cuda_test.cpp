// tests/examples/train_cuda_test.cpp — the training on devices, between which NCCL exchanges.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "examples/same_training.hpp"

TEST_CASE("training on devices learns the bits of seq") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  same_training::check("cuda", 4, static_cast<unsigned>(std::min(devices, 4)));
}
