// tests/examples/network_test.cpp — the example's networks and their gradients, against naive ones in double.
#include "../../examples/train/network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using numbers = std::vector<double>;
using weights = std::span<double const>;

/// The first n parameters; they are removed from `rest`.
weights take(weights& rest, std::size_t n) {
  auto const first = rest.first(n);
  rest = rest.subspan(n);
  return first;
}

numbers dense(numbers const& x, weights& rest, std::size_t outputs) {
  auto const w = take(rest, outputs * x.size()), b = take(rest, outputs);
  numbers y(b.begin(), b.end());
  for (std::size_t i = 0; i < outputs; ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
  return y;
}

numbers relu(numbers x) {
  for (auto& value : x) value = std::max(value, 0.0);
  return x;
}

numbers convolution(numbers const& x, train::image_shape s, weights& rest, std::size_t outputs) {
  auto const w = take(rest, outputs * 9 * s.channels), b = take(rest, outputs);
  numbers y;
  for (std::size_t row = 0; row + 2 < s.height; ++row)
    for (std::size_t column = 0; column + 2 < s.width; ++column)
      for (std::size_t k = 0; k < outputs; ++k) {
        y.push_back(b[k]);
        for (std::size_t i = 0; i < 3; ++i)
          for (std::size_t j = 0; j < 3; ++j)
            for (std::size_t c = 0; c < s.channels; ++c)
              y.back() +=
                  w[((k * 3 + i) * 3 + j) * s.channels + c] * x[((row + i) * s.width + column + j) * s.channels + c];
      }
  return y;
}

numbers average(numbers const& x, train::image_shape s) {
  auto const at = [&](std::size_t row, std::size_t column, std::size_t c) {
    return x[(row * s.width + column) * s.channels + c];
  };
  numbers y;
  for (std::size_t row = 0; row + 1 < s.height; row += 2)
    for (std::size_t column = 0; column + 1 < s.width; column += 2)
      for (std::size_t c = 0; c < s.channels; ++c)
        y.push_back(
            (at(row, column, c) + at(row, column + 1, c) + at(row + 1, column, c) + at(row + 1, column + 1, c)) / 4);
  return y;
}

numbers mlp(numbers const& x, train::image_shape, weights w) { return dense(relu(dense(x, w, 7)), w, 3); }

numbers convolutional(numbers const& x, train::image_shape s, weights w) {
  auto const first = relu(convolution(x, s, w, 8));
  auto const second = relu(convolution(first, {s.height - 2, s.width - 2, 8}, w, 16));
  return dense(average(second, {s.height - 4, s.width - 4, 16}), w, 3);
}

using model = numbers (*)(numbers const&, train::image_shape, weights);

double cross_entropy(numbers const& logits, int label) {
  double sum = 0;
  for (auto logit : logits) sum += std::exp(logit);
  return std::log(sum) - logits[static_cast<std::size_t>(label)];
}

struct problem {
  train::network net;
  model oracle;
  train::image_shape shape;
  std::vector<float> images, w;
  std::vector<int> labels{2, 0, 1};

  problem(train::network network, model naive, train::image_shape s)
      : net(std::move(network)), oracle(naive), shape(s), images(3 * s.size()), w(net.size()) {
    auto random = train::make_generator(1);
    for (auto& x : images) x = static_cast<float>(train::uniform(random));
    for (auto& x : w) x = static_cast<float>(train::normal(random) / 4);  // biases too: no value is at the bend of ReLU
  }

  double loss(numbers const& parameters) const {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      auto const image = std::span(images).subspan(i * shape.size(), shape.size());
      sum += cross_entropy(oracle(numbers(image.begin(), image.end()), shape, parameters), labels[i]);
    }
    return sum / 3;
  }

  /// By central differences: the error is near h^2 + 2^-53 / h < 1e-9.
  numbers gradient() const {
    constexpr double h = 1e-6;
    numbers moved(w.begin(), w.end()), result;
    for (auto& x : moved) {
      auto const here = x;
      x = here + h;
      auto const above = loss(moved);
      x = here - h;
      result.push_back((above - loss(moved)) / (2 * h));
      x = here;
    }
    return result;
  }
};

/// Rounding: sums of up to 144 products in each of at most 4 layers, to and fro, each with an error of 2^-24 at worst,
/// give 8 * 144 / 2^24 < 7e-5 of the largest entry.
void check_gradient(problem p) {
  std::vector<float> gradient(p.net.size(), 99.0f);
  auto const loss = p.net.gradient(p.images, p.labels, p.w, gradient);
  CHECK(loss == doctest::Approx(p.loss(numbers(p.w.begin(), p.w.end()))).epsilon(7e-5));
  CHECK(loss == p.net.loss(p.images, p.labels, p.w));
  auto const expected = p.gradient();
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(expected[i] - static_cast<double>(gradient[i])));
  }
  CHECK(largest > 0.01);
  CHECK(error < 7e-5 * largest);
}

/// `x` after `offset` zeros.
std::vector<float> moved(std::vector<float> const& x, std::size_t offset) {
  std::vector<float> result(offset + x.size());
  std::copy(x.begin(), x.end(), result.begin() + static_cast<std::ptrdiff_t>(offset));
  return result;
}

}  // namespace

TEST_CASE("the gradient of the mlp is that of finite differences") {
  check_gradient({train::mlp({3, 4, 2}, 3, 7), mlp, {3, 4, 2}});
}

TEST_CASE("the gradient of the convolutional network is that of finite differences") {
  check_gradient({train::convolutional({7, 9, 2}, 3), convolutional, {7, 9, 2}});  // the pool leaves out some pixels
}

TEST_CASE("the gradient does not depend on addresses") {
  train::dataset const data{{}, {}, {8, 8, 1}, 10};
  std::vector<int> const labels{1, 2, 3, 4, 5, 6, 7, 8};
  for (auto const* name : {"mlp", "convolutional"}) {
    auto net = train::make_network(name, data);
    auto const w = train::initial_parameters(net, 1);
    std::vector<float> images(8 * 64), expected(net.size());
    auto random = train::make_generator(2);
    for (auto& x : images) x = static_cast<float>(train::uniform(random));
    auto const loss = net.gradient(images, labels, w, expected);
    for (std::size_t offset = 1; offset < 16; ++offset) {
      auto other = train::make_network(name, data);
      std::vector<float> gradient(offset + net.size());
      auto const result = std::span(gradient).subspan(offset);
      auto const moved_images = moved(images, offset), moved_w = moved(w, offset);
      CHECK(other.gradient(std::span(moved_images).subspan(offset), labels, std::span(moved_w).subspan(offset),
                           result) == loss);
      CHECK(std::equal(expected.begin(), expected.end(), result.begin()));
    }
  }
}

TEST_CASE("the tensors follow each other") {
  auto const net = train::convolutional({8, 8, 1}, 10);
  std::size_t n = 0;
  for (auto const& tensor : net.tensors()) {
    CHECK(tensor.n % tensor.rows == 0);
    n += tensor.n;
  }
  CHECK(n == net.size());
  CHECK(net.tensors().size() == 6);
  CHECK(net.tensors()[2].name == "second.weight");
  CHECK(net.tensors()[2].rows == 16);
  CHECK(net.tensors()[2].n == 16 * 9 * 8);
}

TEST_CASE("initial weights have variance 2 over inputs and biases are zero") {
  auto const net = train::mlp({8, 8, 1}, 10, 64);
  auto const w = train::initial_parameters(net, 1);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < 4096; ++i) {
    sum += w[i];
    squares += static_cast<double>(w[i]) * w[i];
  }
  CHECK(std::abs(sum / 4096) < 5 * std::sqrt(2.0 / 64 / 4096));          // five deviations of the mean
  CHECK(std::abs(squares / 4096 * 32 - 1) < 5 * std::sqrt(2.0 / 4096));  // and of the variance
  CHECK(std::all_of(w.begin() + 4096, w.begin() + 4160, [](float bias) { return bias == 0; }));
  CHECK(w == train::initial_parameters(net, 1));
  CHECK(w != train::initial_parameters(net, 2));
}

TEST_CASE("accuracy is the share of images for which predict returns the label") {
  problem p(train::mlp({3, 4, 2}, 3, 7), mlp, {3, 4, 2});
  auto const found = p.net.predict(p.images, 3, p.w);
  train::dataset data{p.images, found, {3, 4, 2}, 3};
  CHECK(train::accuracy(p.net, data, p.w) == 1.0);
  data.labels[1] = (found[1] + 1) % 3;
  CHECK(train::accuracy(p.net, data, p.w) == doctest::Approx(2.0 / 3));
  CHECK(train::loss(p.net, data, p.w) == doctest::Approx(p.net.loss(p.images, data.labels, p.w)));
}

TEST_CASE("wrong sizes are refused") {
  problem p(train::mlp({3, 4, 2}, 3, 7), mlp, {3, 4, 2});
  std::vector<float> gradient(p.net.size() - 1);
  CHECK_THROWS_AS(p.net.gradient(p.images, p.labels, p.w, gradient), std::invalid_argument);
  CHECK_THROWS_AS(p.net.loss(p.images, p.labels, gradient), std::invalid_argument);
  CHECK_THROWS_AS(train::convolutional({5, 6, 1}, 10), std::invalid_argument);
}
