// resnet.hpp — ResNet-20 for images of 32 x 32 pixels (He et al. 2016), with convolutions as shortcuts.
#pragma once

#include "network.hpp"

#include <cstdint>
#include <string>

namespace pith_libtorch {

inline setting const resnet_setting = {"sgd", 0.1, 0, 0, 0.9, 5e-4, 0, 128, 2000};

/// A convolution without a bias, which keeps the size of the image divided by the stride, and a batch normalisation.
inline torch::nn::Sequential normed_convolution(std::int64_t in, std::int64_t out, std::int64_t size,
                                                std::int64_t stride) {
  auto const options = torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false);
  return torch::nn::Sequential(torch::nn::Conv2d(options), torch::nn::BatchNorm2d(out));
}

class residual_block final : public torch::nn::Module {
 public:
  residual_block(std::int64_t in, std::int64_t out) {
    auto const stride = out / in;
    first_ = register_module("first", normed_convolution(in, out, 3, stride));
    second_ = register_module("second", normed_convolution(out, out, 3, 1));
    if (stride > 1) shortcut_ = register_module("shortcut", normed_convolution(in, out, 1, stride));
  }

  torch::Tensor forward(torch::Tensor const& x) {
    auto const h = second_->forward(torch::relu(first_->forward(x)));
    return torch::relu(h + (shortcut_ ? shortcut_->forward(x) : x));
  }

 private:
  torch::nn::Sequential first_ = nullptr, second_ = nullptr, shortcut_ = nullptr;
};

class resnet20 final : public network {
 public:
  resnet20() {
    stem_ = register_module("stem", normed_convolution(3, 16, 3, 1));
    blocks_ = register_module("blocks", torch::nn::Sequential());
    std::int64_t in = 16;
    for (auto const out : {16, 16, 16, 32, 32, 32, 64, 64, 64}) {
      blocks_->push_back(residual_block(in, out));
      in = out;
    }
    output_ = register_module("output", torch::nn::Linear(64, 10));
  }

  torch::Tensor loss(samples const& of) override {
    auto const h = blocks_->forward(torch::relu(stem_->forward(of.x)));
    return torch::cross_entropy_loss(output_(h.mean({2, 3})), of.y);
  }

 private:
  torch::nn::Sequential stem_ = nullptr, blocks_ = nullptr;
  torch::nn::Linear output_ = nullptr;
};

}  // namespace pith_libtorch
