// network.hpp — the models' common base, and the settings of their training.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace pith_libtorch {

/// The inputs and the targets of some samples.
struct samples {
  torch::Tensor x, y;
};

/// A model that computes the mean loss of its samples.
class network : public torch::nn::Module {
 public:
  virtual torch::Tensor loss(samples const& of) = 0;
};

/// How a model is trained, unless the command line says otherwise.
struct setting {
  std::string optimizer;                ///< adamw or sgd
  double learning_rate, min_rate;       ///< the schedule is a cosine from the first to the second
  std::int64_t warm_up;                 ///< steps in which the learning rate rises linearly before
  double momentum, weight_decay, clip;  ///< weight decay of matrices; clip 0: no clipping
  std::int64_t batch, steps;            ///< the samples of all ranks together
};

}  // namespace pith_libtorch
