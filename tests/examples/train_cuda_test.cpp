// tests/examples/train_cuda_test.cpp — the training on devices, between which NCCL exchanges.
#include "examples/same_training.hpp"

TEST_CASE("training on devices learns the bits of seq") { same_training::check("cuda", 4); }
