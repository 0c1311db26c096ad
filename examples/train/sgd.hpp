// examples/train/sgd.hpp — stochastic gradient descent on flat vectors, and each rank's share of the minibatches.
#pragma once

#include "dataset.hpp"
#include "random.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace train {

/// Descent with momentum (Polyak 1964): v = momentum v + gradient, parameters -= learning_rate v.
class sgd {
 public:
  sgd(std::size_t n, float learning_rate, float momentum)
      : learning_rate_(learning_rate), momentum_(momentum), velocity_(n) {}

  void step(std::span<float> parameters, std::span<float const> gradient) {
    for (std::size_t i = 0; i < velocity_.size(); ++i) {
      velocity_[i] = momentum_ * velocity_[i] + gradient[i];
      parameters[i] -= learning_rate_ * velocity_[i];
    }
  }

 private:
  float learning_rate_, momentum_;
  std::vector<float> velocity_;
};

/// The images of one rank in one step.
struct minibatch {
  std::vector<float> pixels;
  std::vector<int> labels;
};

/// Distributes the images over the ranks. All ranks of a seed share one order of the images, which changes every epoch.
/// Each step takes the next ranks x images of it, and each rank its slice. An incomplete rest of an epoch is skipped.
/// The data set must outlive the sampler.
class sampler {
 public:
  sampler(dataset const& data, std::size_t rank, std::size_t ranks, std::size_t images, std::uint64_t seed)
      : data_(&data), rank_(rank), ranks_(ranks), seed_(seed) {
    if (rank >= ranks || images == 0 || images > data.size() / ranks)
      throw std::invalid_argument("train::sampler: needs rank < ranks and 0 < ranks * images <= data.size()");
    batch_.pixels.resize(images * data.shape.size());
    batch_.labels.resize(images);
  }

  std::size_t steps_per_epoch() const { return data_->size() / (ranks_ * batch_.labels.size()); }

  /// The rank's images of a step; valid until the next call.
  minibatch const& at(std::size_t step) {
    shuffle(step / steps_per_epoch());
    auto const n = batch_.labels.size();
    auto const first = (step % steps_per_epoch() * ranks_ + rank_) * n;
    auto to = batch_.pixels.begin();
    for (std::size_t i = 0; i < n; ++i) {
      auto const from = order_[first + i];
      to = std::ranges::copy(data_->pixels(from, 1), to).out;
      batch_.labels[i] = data_->labels[from];
    }
    return batch_;
  }

 private:
  void shuffle(std::size_t epoch) {
    if (!order_.empty() && epoch == epoch_) return;
    order_ = permutation(data_->size(), make_generator(seed_, epoch + 1));  // stream 0 is for initial parameters
    epoch_ = epoch;
  }

  dataset const* data_;
  std::size_t rank_, ranks_;
  std::uint64_t seed_;
  std::size_t epoch_ = 0;
  std::vector<std::size_t> order_;
  minibatch batch_;
};

}  // namespace train
