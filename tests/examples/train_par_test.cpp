// tests/examples/train_par_test.cpp — the training on a pool of threads, and executors that a program lacks.
#include "examples/same_training.hpp"

#include <stdexcept>

TEST_CASE("training on par learns the bits of seq") { same_training::check("par", 20); }

TEST_CASE("other executors have few codecs") {
  CHECK_THROWS_WITH_AS(same_training::of("par", "natural<8>", 1),
                       "train: \"natural<8>\" runs on seq alone; other executors have identity ef(scaled_sign) "
                       "ef(power_sgd(2)) ef(top_k(0.01)|qsgd<8>)",
                       std::invalid_argument);
}

TEST_CASE("an executor that the program was built without is refused in words") {
  CHECK_NOTHROW(train::require_executor("seq"));
  CHECK_NOTHROW(train::require_executor("par"));
  CHECK_THROWS_WITH_AS(train::require_executor("cuda"),
                       "train: this program was built without the executor cuda: cuda needs nvcc and NCCL",
                       std::invalid_argument);
}
