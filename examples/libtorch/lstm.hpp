// lstm.hpp — an LSTM language model of words, of 920,992 parameters for 4,000 words.
#pragma once

#include "network.hpp"

#include <cstdint>
#include <tuple>

namespace pith_libtorch {

inline constexpr std::int64_t lstm_width = 96, lstm_layers = 2, lstm_words = 4000, lstm_context = 35;
inline constexpr double lstm_dropout = 0.2;
inline setting const lstm_setting = {"sgd", 20, 20, 0, 0, 0, 0.25, 80, 1000};

/// Embedding, LSTM and output layer. The output layer has weights of its own.
class lstm final : public network {
 public:
  explicit lstm(std::int64_t words) {
    embedding_ = register_module("embedding", torch::nn::Embedding(words, lstm_width));
    layers_ = register_module("layers", torch::nn::LSTM(torch::nn::LSTMOptions(lstm_width, lstm_width)
                                                            .num_layers(lstm_layers)
                                                            .dropout(lstm_dropout)
                                                            .batch_first(true)));
    output_ = register_module("output", torch::nn::Linear(lstm_width, words));
    torch::nn::init::uniform_(embedding_->weight, -0.1, 0.1);
    torch::nn::init::uniform_(output_->weight, -0.1, 0.1);
    torch::nn::init::zeros_(output_->bias);
  }

  torch::Tensor loss(samples const& of) override {
    auto const dropped = [this](torch::Tensor const& h) { return torch::dropout(h, lstm_dropout, is_training()); };
    auto const h = std::get<0>(layers_(dropped(embedding_(of.x))));
    return torch::cross_entropy_loss(output_(dropped(h)).flatten(0, 1), of.y.flatten());
  }

 private:
  torch::nn::Embedding embedding_ = nullptr;
  torch::nn::LSTM layers_ = nullptr;
  torch::nn::Linear output_ = nullptr;
};

}  // namespace pith_libtorch
