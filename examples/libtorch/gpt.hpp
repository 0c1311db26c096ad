// gpt.hpp — the GPT of examples/torch/train_gpt.py, with the same initial parameters for the same seed.
#pragma once

#include "network.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace pith_libtorch {

/// nanoGPT's setting of 0.8 million parameters.
struct gpt_size {
  std::int64_t layers = 4, heads = 4, width = 128, context = 64;
};
inline setting const gpt_setting = {"adamw", 1e-3, 1e-4, 100, 0, 0.1, 1.0, 12, 2000};

inline torch::Tensor attention(torch::Tensor const& q, torch::Tensor const& k, torch::Tensor const& v) {
  auto const later = torch::ones({q.size(-2), q.size(-2)}, torch::kBool).triu(1);
  auto const scores = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  return scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1).matmul(v);
}

inline torch::nn::Linear linear(std::int64_t in, std::int64_t out) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false));
}

/// Layer normalisation without a bias.
class layer_norm final : public torch::nn::Module {
 public:
  explicit layer_norm(std::int64_t width) { weight_ = register_parameter("weight", torch::ones(width)); }
  torch::Tensor forward(torch::Tensor const& x) { return torch::layer_norm(x, weight_.sizes(), weight_); }

 private:
  torch::Tensor weight_;
};

class gpt_block final : public torch::nn::Module {
 public:
  explicit gpt_block(gpt_size const& of) : heads_(of.heads) {
    attention_norm_ = register_module("attention_norm", std::make_shared<layer_norm>(of.width));
    mlp_norm_ = register_module("mlp_norm", std::make_shared<layer_norm>(of.width));
    qkv_ = register_module("qkv", linear(of.width, 3 * of.width));
    attention_out_ = register_module("attention_out", linear(of.width, of.width));
    mlp_in_ = register_module("mlp_in", linear(of.width, 4 * of.width));
    mlp_out_ = register_module("mlp_out", linear(4 * of.width, of.width));
  }

  torch::Tensor forward(torch::Tensor const& x) {
    auto const h = x + attention_out_(attend(attention_norm_->forward(x)));
    return h + mlp_out_(torch::gelu(mlp_in_(mlp_norm_->forward(h))));
  }

 private:
  torch::Tensor attend(torch::Tensor const& x) {
    auto parts = qkv_(x).split(x.size(2), 2);
    for (auto& part : parts) part = part.view({x.size(0), x.size(1), heads_, -1}).transpose(1, 2);
    return attention(parts[0], parts[1], parts[2]).transpose(1, 2).reshape(x.sizes());
  }

  std::int64_t heads_;
  std::shared_ptr<layer_norm> attention_norm_, mlp_norm_;
  torch::nn::Linear qkv_ = nullptr, attention_out_ = nullptr, mlp_in_ = nullptr, mlp_out_ = nullptr;
};

class gpt final : public network {
 public:
  gpt(gpt_size const& of, std::int64_t characters) {
    tokens_ = register_module("tokens", torch::nn::Embedding(characters, of.width));  // also the output layer
    positions_ = register_module("positions", torch::nn::Embedding(of.context, of.width));
    blocks_ = register_module("blocks", torch::nn::ModuleList());
    for (std::int64_t i = 0; i < of.layers; ++i) blocks_->push_back(gpt_block(of));
    norm_ = register_module("norm", std::make_shared<layer_norm>(of.width));
    initialise(0.02 / std::sqrt(2.0 * static_cast<double>(of.layers)));
  }

  torch::Tensor loss(samples const& of) override {
    auto h = tokens_(of.x) + positions_(torch::arange(of.x.size(1)));
    for (auto const& block : *blocks_) h = block->as<gpt_block>()->forward(h);
    auto const logits = norm_->forward(h).matmul(tokens_->weight.t());
    return torch::cross_entropy_loss(logits.flatten(0, 1).to(torch::kFloat), of.y.flatten());
  }

 private:
  void initialise(double residual_deviation) {
    for (auto& p : named_parameters()) {
      if (p.value().dim() < 2) continue;
      auto const is_residual = p.key().find("_out.") != std::string::npos;
      torch::nn::init::normal_(p.value(), 0, is_residual ? residual_deviation : 0.02);
    }
  }

  torch::nn::Embedding tokens_ = nullptr, positions_ = nullptr;
  torch::nn::ModuleList blocks_ = nullptr;
  std::shared_ptr<layer_norm> norm_;
};

}  // namespace pith_libtorch
