// examples/train/layers.hpp — the layers of small networks, with their gradients.
#pragma once

#include "dataset.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace train {

/// A named parameter: a matrix of rows x (n / rows), or a vector where rows is 1.
struct tensor {
  std::string name;
  std::size_t rows;
  std::size_t n;
  std::size_t window = 0;  ///< the places of the kernel, if it is a convolution's
};

using input = std::span<float const>;
using output = std::span<float>;

/// A function y = f(x, w) of whole minibatches: x and y hold the images one after the other, w the layer's parameters.
/// `backward_...` take dy, the gradient of the loss with respect to y, and overwrite those with respect to w and x.
class layer {
 public:
  virtual ~layer() = default;
  virtual std::vector<tensor> tensors() const { return {}; }
  virtual std::size_t output_size(std::size_t n) const { return n; }
  virtual void forward(input x, input w, output y) const = 0;
  virtual void backward_weights(input, input, output) const {}
  virtual void backward_input(input y, input dy, input w, output dx) const = 0;
};

/// Y = X W^T + b, for X with rows of `inputs` values: whole images, or the patches of a convolution, whose kernel has
/// `window` places.
class dense final : public layer {
 public:
  dense(std::string name, std::size_t inputs, std::size_t outputs, std::size_t window = 0)
      : name_(std::move(name)), inputs_(inputs), outputs_(outputs), window_(window) {}

  std::vector<tensor> tensors() const override {
    return {{name_ + ".weight", outputs_, outputs_ * inputs_, window_}, {name_ + ".bias", 1, outputs_}};
  }

  std::size_t output_size(std::size_t n) const override { return n / inputs_ * outputs_; }

  void forward(input x, input w, output y) const override;
  void backward_weights(input x, input dy, output dw) const override;
  void backward_input(input y, input dy, input w, output dx) const override;

 private:
  template <class T>
  std::span<T> weight(std::span<T> w) const {
    return w.first(outputs_ * inputs_);
  }

  template <class T>
  std::span<T> bias(std::span<T> w) const {
    return w.last(outputs_);
  }

  std::string name_;
  std::size_t inputs_, outputs_, window_;
};

/// y = max(x, 0).
class relu final : public layer {
 public:
  void forward(input x, input, output y) const override {
    std::ranges::transform(x, y.begin(), [](float a) { return std::max(a, 0.0f); });
  }

  void backward_input(input y, input dy, input, output dx) const override {
    std::ranges::transform(y, dy, dx.begin(), [](float a, float b) { return a > 0 ? b : 0.0f; });
  }
};

/// The neighbourhoods of 3 x 3 pixels inside an image, one per row; `dense` after it is a convolution.
class patches final : public layer {
 public:
  explicit patches(image_shape image) : image_(image) {}

  image_shape shape() const { return {image_.height - 2, image_.width - 2, 9 * image_.channels}; }
  std::size_t output_size(std::size_t n) const override { return n / image_.size() * shape().size(); }

  void forward(input x, input, output y) const override {
    auto patch = y.begin();
    each_row(x.size(), [&](std::size_t at, std::size_t n) { patch = std::copy_n(x.data() + at, n, patch); });
  }

  void backward_input(input, input dy, input, output dx) const override {
    std::fill(dx.begin(), dx.end(), 0.0f);
    auto patch = dy.data();
    each_row(dx.size(), [&](std::size_t at, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) dx[at + i] += *patch++;
    });
  }

 private:
  /// Calls f(place in x, length) for each of the three rows of each patch, in the order of y.
  void each_row(std::size_t n, auto f) const {
    auto const [height, width, channels] = shape();
    for (std::size_t image = 0; image < n; image += image_.size())
      for (std::size_t pixel = 0; pixel < height * width; ++pixel)
        for (std::size_t row = 0; row < 3; ++row)
          f(image + ((pixel / width + row) * image_.width + pixel % width) * image_.channels, channels / 3);
  }

  image_shape image_;
};

/// The mean of each square of 2 x 2 pixels; an odd last row or column is left out.
class average_pool final : public layer {
 public:
  explicit average_pool(image_shape image) : image_(image) {}

  image_shape shape() const { return {image_.height / 2, image_.width / 2, image_.channels}; }
  std::size_t output_size(std::size_t n) const override { return n / image_.size() * shape().size(); }

  void forward(input x, input, output y) const override {
    std::fill(y.begin(), y.end(), 0.0f);
    each_pixel(x.size(), [&](std::size_t from, std::size_t to) {
      for (std::size_t i = 0; i < image_.channels; ++i) y[to + i] += x[from + i] / 4;
    });
  }

  void backward_input(input, input dy, input, output dx) const override {
    std::fill(dx.begin(), dx.end(), 0.0f);
    each_pixel(dx.size(), [&](std::size_t from, std::size_t to) {
      for (std::size_t i = 0; i < image_.channels; ++i) dx[from + i] = dy[to + i] / 4;
    });
  }

 private:
  /// Calls f(place in x, place in y) for each pixel of x that has a place in y.
  void each_pixel(std::size_t n, auto f) const {
    auto const [height, width, channels] = shape();
    for (std::size_t image = 0; image < n / image_.size(); ++image)
      for (std::size_t row = 0; row < 2 * height; ++row)
        for (std::size_t column = 0; column < 2 * width; ++column)
          f(((image * image_.height + row) * image_.width + column) * channels,
            ((image * height + row / 2) * width + column / 2) * channels);
  }

  image_shape image_;
};

}  // namespace train
