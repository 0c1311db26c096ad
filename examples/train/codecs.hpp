// examples/train/codecs.hpp — the codecs that are compared by default.
#pragma once

#include <string>
#include <vector>

namespace train {

/// The references of the comparison.
inline constexpr auto dense_float = "identity", dense_bfloat16 = "cast<bfloat16>";

inline std::vector<std::string> default_codecs() {
  return {dense_float,
          dense_bfloat16,
          "ef(scaled_sign)",
          "ef(top_k(0.01))",
          "top_k(0.01)",
          "ef(random_k(0.1))",
          "ef(qsgd<8>)",
          "ef(power_sgd(2))",
          "ef(top_k(0.01)|qsgd<8>)",
          "ef(random_k(0.1)|cast<half>)"};
}

/// The codecs of executors other than seq.
inline std::vector<std::string> few_codecs() {
  return {dense_float, "ef(scaled_sign)", "ef(power_sgd(2))", "ef(top_k(0.01)|qsgd<8>)"};
}

/// The codecs that controllers are compared with: dense, and the two ends of their ladder.
inline std::vector<std::string> codecs_beside_controllers() {
  return {dense_bfloat16, "ef(top_k(0.1))", "ef(top_k(0.001))"};
}

}  // namespace train
