// examples/language/adam.hpp — the optimizer Adam on flat vectors.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace language {

/// Adam (Kingma and Ba, ICLR 2015) with betas 0.9 and 0.99.
class adam {
 public:
  adam(std::size_t n, float learning_rate) : learning_rate_(learning_rate), mean_(n), square_(n) {}

  void step(std::span<float> parameters, std::span<float const> gradient) {
    left_ *= 0.9f;
    square_left_ *= 0.99f;
    auto const rate = learning_rate_ * std::sqrt(1 - square_left_) / (1 - left_);
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      mean_[i] += 0.1f * (gradient[i] - mean_[i]);
      square_[i] += 0.01f * (gradient[i] * gradient[i] - square_[i]);
      parameters[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + 1e-8f);
    }
  }

 private:
  float learning_rate_, left_ = 1, square_left_ = 1;  ///< the weights of the initial zeros
  std::vector<float> mean_, square_;
};

}  // namespace language
