// descent.hpp — clipping, the schedule of the learning rate, and the optimizer.
#pragma once

#include "network.hpp"

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace pith_libtorch {

inline double learning_rate(setting const& of, std::int64_t step) {
  auto const at = static_cast<double>(step), warm_up = static_cast<double>(of.warm_up);
  if (step < of.warm_up) return of.learning_rate * (at + 1) / (warm_up + 1);
  auto const part = (at - warm_up) / std::max(1.0, static_cast<double>(of.steps) - warm_up);
  return of.min_rate + 0.5 * (1 + std::cos(std::numbers::pi * part)) * (of.learning_rate - of.min_rate);
}

/// Updates parameters by their mean gradients. For parameters of bfloat16, the optimizer updates copies of float, which
/// are then rounded to the parameters.
class descent {
 public:
  descent(setting of, std::vector<torch::Tensor> parameters) : of_(std::move(of)), parameters_(std::move(parameters)) {
    for (auto const& p : parameters_) floats_.push_back(p.scalar_type() == torch::kFloat ? p : copy_of(p));
    optimizer_ = made_optimizer();
  }

  void step(std::int64_t step) {
    for_each_copy([](auto const& p, auto& copy) { copy.mutable_grad() = p.grad().to(torch::kFloat); });
    if (of_.clip > 0) torch::nn::utils::clip_grad_norm_(floats_, of_.clip);
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(learning_rate(of_, step));
    optimizer_->step();
    for_each_copy([](auto const& p, auto const& copy) {
      torch::NoGradGuard const guard;
      p.data().copy_(copy);
    });
  }

  torch::optim::Optimizer& optimizer() { return *optimizer_; }
  /// The parameters as floats.
  std::vector<torch::Tensor>& floats() { return floats_; }

 private:
  static torch::Tensor copy_of(torch::Tensor const& p) { return p.detach().to(torch::kFloat).requires_grad_(); }

  template <class F>
  void for_each_copy(F const& f) {
    for (std::size_t i = 0; i < floats_.size(); ++i)
      if (!floats_[i].is_same(parameters_[i])) f(parameters_[i], floats_[i]);
  }

  std::unique_ptr<torch::optim::OptimizerOptions> options(double weight_decay) const {
    if (of_.optimizer == "adamw") {
      return std::make_unique<torch::optim::AdamWOptions>(
          torch::optim::AdamWOptions(of_.learning_rate).betas({0.9, 0.99}).weight_decay(weight_decay));
    }
    return std::make_unique<torch::optim::SGDOptions>(
        torch::optim::SGDOptions(of_.learning_rate).momentum(of_.momentum).weight_decay(weight_decay));
  }
  /// Weight decay applies to matrices alone.
  std::unique_ptr<torch::optim::Optimizer> made_optimizer() const {
    auto matrices = std::vector<torch::Tensor>(), vectors = matrices;
    for (auto const& p : floats_) (p.dim() > 1 ? matrices : vectors).push_back(p);
    auto groups = std::vector<torch::optim::OptimizerParamGroup>();
    groups.emplace_back(matrices, options(of_.weight_decay));
    groups.emplace_back(vectors, options(0));
    if (of_.optimizer == "adamw") return std::make_unique<torch::optim::AdamW>(groups);
    return std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(of_.learning_rate));
  }

  setting of_;
  std::vector<torch::Tensor> parameters_, floats_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace pith_libtorch
