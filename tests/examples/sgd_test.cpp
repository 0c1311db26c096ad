// tests/examples/sgd_test.cpp — the example's descent, its minibatches, and both together on the digits.
#include "../../examples/train/sgd.hpp"
#include "../../examples/train/load.hpp"
#include "../../examples/train/network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

train::split digits() {
  return train::load(std::filesystem::path(__FILE__).parent_path() / "../../examples/train/data");
}

/// n images of one pixel, whose labels and values are their places.
train::dataset numbered(int n) {
  auto const size = static_cast<std::size_t>(n);
  train::dataset data{std::vector<float>(size), std::vector<int>(size), {1, 1, 1}, n};
  std::iota(data.labels.begin(), data.labels.end(), 0);
  std::iota(data.images.begin(), data.images.end(), 0.0f);
  return data;
}

/// Four ranks in one thread, with the mean of their gradients.
class four_ranks {
 public:
  four_ranks(train::dataset const& data, train::network net) : net_(std::move(net)), gradient_(net_.size()) {
    for (std::size_t rank = 0; rank < 4; ++rank) samplers_.emplace_back(data, rank, 4, 8, 1);
  }

  std::vector<float> mean_gradient(std::size_t step, std::span<float const> w) {
    std::vector<float> mean(w.size());
    for (auto& sampler : samplers_) {
      auto const& batch = sampler.at(step);
      net_.gradient(batch.pixels, batch.labels, w, gradient_);
      for (std::size_t i = 0; i < w.size(); ++i) mean[i] += gradient_[i] / 4;
    }
    return mean;
  }

  std::vector<float> train(std::size_t steps) {
    auto w = train::initial_parameters(net_, 1);
    train::sgd descent(w.size(), 0.02f, 0.9f);
    for (std::size_t step = 0; step < steps; ++step) descent.step(w, mean_gradient(step, w));
    return w;
  }

 private:
  train::network net_;
  std::vector<float> gradient_;
  std::vector<train::sampler> samplers_;
};

}  // namespace

TEST_CASE("a step adds momentum and descends") {
  train::sgd descent(2, 0.5f, 0.5f);
  std::vector<float> w{1, 2};
  std::vector<float> const gradient{2, -4};
  descent.step(w, gradient);
  CHECK(w == std::vector<float>{0, 4});
  descent.step(w, gradient);  // the velocity is 3, -6
  CHECK(w == std::vector<float>{-1.5f, 7});
}

TEST_CASE("ranks share no image in an epoch") {
  auto const data = numbered(14);  // 3 ranks x 2 images: 2 steps, and 2 images are left out
  std::vector<train::sampler> samplers;
  for (std::size_t rank = 0; rank < 3; ++rank) samplers.emplace_back(data, rank, 3, 2, 1);
  CHECK(samplers[0].steps_per_epoch() == 2);
  std::vector<std::set<int>> epochs(2);
  std::vector<int> order;
  for (std::size_t step = 0; step < 4; ++step)
    for (auto& sampler : samplers) {
      auto const& batch = sampler.at(step);
      CHECK(batch.pixels[1] == static_cast<float>(batch.labels[1]));
      epochs[step / 2].insert(batch.labels.begin(), batch.labels.end());
      order.insert(order.end(), batch.labels.begin(), batch.labels.end());
    }
  CHECK(epochs[0].size() == 12);
  CHECK(epochs[1].size() == 12);
  CHECK(!std::equal(order.begin(), order.begin() + 12, order.begin() + 12));
}

TEST_CASE("a rank takes its slice of the batch of all") {
  auto const data = numbered(16);
  train::sampler all(data, 0, 1, 8, 5), second(data, 1, 2, 4, 5);
  for (std::size_t step : {0u, 3u, 1u}) {  // in any order of the steps
    auto const labels = all.at(step).labels;
    CHECK(second.at(step).labels == std::vector<int>(labels.begin() + 4, labels.end()));
  }
}

TEST_CASE("a sampler needs images for all ranks") {
  auto const data = numbered(7);
  CHECK_THROWS_AS(train::sampler(data, 0, 2, 4, 1), std::invalid_argument);
  CHECK_THROWS_AS(train::sampler(data, 0, 2, 0, 1), std::invalid_argument);
  CHECK_THROWS_AS(train::sampler(data, 2, 2, 1, 1), std::invalid_argument);
}

TEST_CASE("the mean of the ranks gradients is the gradient of all their images") {
  auto const data = digits().train;
  auto net = train::mlp(data.shape, 10);
  auto const w = train::initial_parameters(net, 1);
  auto const mean = four_ranks(data, net).mean_gradient(0, w);
  train::sampler all(data, 0, 1, 32, 1);
  std::vector<float> gradient(net.size());
  net.gradient(all.at(0).pixels, all.at(0).labels, w, gradient);
  float largest = 0, error = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    largest = std::max(largest, std::abs(gradient[i]));
    error = std::max(error, std::abs(gradient[i] - mean[i]));
  }
  // Sums of 64 products in the two layers, to and fro, and of 32 images, twice, with an error of 2^-24 each at worst.
  CHECK(error < (4 * 64 + 2 * 32) * 0x1p-24f * largest);
}

TEST_CASE("four ranks learn the digits") {
  auto const data = digits();
  auto net = train::make_network("mlp", data.train);
  auto const w = four_ranks(data.train, net).train(1800);
  CHECK(train::accuracy(net, data.test, w) >= 0.96);
  CHECK(train::loss(net, data.train, w) < 0.05);
}

TEST_CASE("the same seed gives the same parameters") {
  auto const data = digits().train;
  auto const net = train::convolutional(data.shape, 10);
  CHECK(four_ranks(data, net).train(3) == four_ranks(data, net).train(3));
}
