// examples/train/network.hpp — small networks whose parameters and gradients are flat vectors of float.
#pragma once

#include "dataset.hpp"
#include "layers.hpp"
#include "random.hpp"

#include <range/v3/view/zip.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace train {

/// The cross-entropy of softmax(logits) and a label; its gradient with respect to the logits, times `scale`.
/// Plain loops, as Eigen's choice between exp of packets and of scalars, which round differently, depends on addresses.
inline float cross_entropy(input logits, std::size_t label, float scale, output gradient) {
  auto const largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (std::size_t k = 0; k < logits.size(); ++k) sum += gradient[k] = std::exp(logits[k] - largest);
  for (auto& x : gradient) x *= scale / sum;
  gradient[label] -= scale;
  return std::log(sum) + largest - logits[label];
}

/// The mean over images that lie one after the other.
inline float mean_cross_entropy(input logits, std::span<int const> labels, output gradient) {
  auto const classes = logits.size() / labels.size();
  auto const scale = 1 / static_cast<float>(labels.size());
  double sum = 0;
  for (std::size_t i = 0; i < labels.size(); ++i)
    sum += cross_entropy(logits.subspan(i * classes, classes), static_cast<std::size_t>(labels[i]), scale,
                         gradient.subspan(i * classes, classes));
  return static_cast<float>(sum) * scale;
}

/// The place of the largest logit.
inline int most_probable(input logits) { return static_cast<int>(std::ranges::max_element(logits) - logits.begin()); }

/// Layers in sequence. The parameters belong to the caller, as one vector that holds the tensors one after the other.
/// Keeps buffers between calls, so each thread needs its own copy. The same arguments give the same bits at any
/// address.
class network {
 public:
  using layers = std::vector<std::shared_ptr<layer const>>;

  explicit network(layers sequence) : layers_(std::move(sequence)), y_(layers_.size()), dy_(layers_.size()) {
    for (auto const& layer : layers_) {
      for (auto const& tensor : layer->tensors()) tensors_.push_back(tensor);
      for (auto const& tensor : layer->tensors()) size_ += tensor.n;
      ends_.push_back(size_);
    }
  }

  std::vector<tensor> const& tensors() const { return tensors_; }

  /// The number of parameters.
  std::size_t size() const { return size_; }

  /// Mean cross-entropy of a minibatch: images one after the other, and their labels.
  float loss(input images, std::span<int const> labels, input parameters) {
    forward(images, parameters);
    dy_.back().resize(y_.back().size());
    return mean_cross_entropy(y_.back(), labels, dy_.back());
  }

  /// The loss; overwrites `gradient` by its gradient with respect to the parameters.
  float gradient(input images, std::span<int const> labels, input parameters, output gradient) {
    check(gradient.size());
    auto const value = loss(images, labels, parameters);
    for (auto i = layers_.size(); i-- > 0;) {
      auto const x = i == 0 ? images : input(y_[i - 1]);
      layers_[i]->backward_weights(x, dy_[i], part(gradient, i));
      if (start(i) == 0) break;  // no layer before this one has parameters
      dy_[i - 1].resize(x.size());
      layers_[i]->backward_input(y_[i], dy_[i], part(parameters, i), dy_[i - 1]);
    }
    return value;
  }

  /// The most probable class of each of the images.
  std::vector<int> predict(input images, std::size_t n, input parameters) {
    forward(images, parameters);
    auto const logits = input(y_.back());
    std::vector<int> found(n);
    for (std::size_t i = 0; i < n; ++i)
      found[i] = most_probable(logits.subspan(i * (logits.size() / n), logits.size() / n));
    return found;
  }

 private:
  void check(std::size_t n) const {
    if (n != size_) throw std::invalid_argument("train::network: parameters and gradient must have size() values");
  }

  std::size_t start(std::size_t layer) const { return layer == 0 ? 0 : ends_[layer - 1]; }

  /// Those of all parameters that are the layer's.
  template <class T>
  std::span<T> part(std::span<T> all, std::size_t layer) const {
    return all.subspan(start(layer), ends_[layer] - start(layer));
  }

  void forward(input images, input parameters) {
    check(parameters.size());
    auto x = images;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      y_[i].resize(layers_[i]->output_size(x.size()));
      layers_[i]->forward(x, part(parameters, i), y_[i]);
      x = y_[i];
    }
  }

  layers layers_;
  std::vector<tensor> tensors_;
  std::vector<std::size_t> ends_;  // of the layers' parts of the parameters
  std::size_t size_ = 0;
  std::vector<std::vector<float>> y_, dy_;  // of each layer, and the gradients with respect to them
};

/// The share of the images that the network puts in their class.
inline double accuracy(network& net, dataset const& data, input parameters) {
  std::size_t right = 0, n = 0;
  for (std::size_t first = 0; first < data.size(); first += n) {
    n = std::min<std::size_t>(64, data.size() - first);
    auto const classes = net.predict(data.pixels(first, n), n, parameters);
    auto const labels = std::span(data.labels).subspan(first, n);
    for (auto const& [found, label] : ranges::views::zip(classes, labels)) right += found == label;
  }
  return static_cast<double>(right) / static_cast<double>(data.size());
}

/// Mean cross-entropy of all images.
inline double loss(network& net, dataset const& data, input parameters) {
  double sum = 0;
  std::size_t n = 0;
  for (std::size_t first = 0; first < data.size(); first += n) {
    n = std::min<std::size_t>(64, data.size() - first);
    auto const labels = std::span(data.labels).subspan(first, n);
    sum += static_cast<double>(n) * net.loss(data.pixels(first, n), labels, parameters);
  }
  return sum / static_cast<double>(data.size());
}

/// Parameters to start from: weights of variance 2 / inputs (He et al., ICCV 2015), biases zero.
inline std::vector<float> initial_parameters(network const& net, std::uint64_t seed) {
  auto random = make_generator(seed);
  std::vector<float> parameters;
  parameters.reserve(net.size());
  for (auto const& tensor : net.tensors()) {
    auto const inputs = static_cast<double>(tensor.n / tensor.rows);
    auto const deviation = tensor.rows == 1 ? 0 : std::sqrt(2 / inputs);
    for (std::size_t i = 0; i < tensor.n; ++i) parameters.push_back(static_cast<float>(deviation * normal(random)));
  }
  return parameters;
}

/// One hidden layer.
inline network mlp(image_shape image, std::size_t classes, std::size_t hidden = 64) {
  return network({std::make_shared<dense>("hidden", image.size(), hidden), std::make_shared<relu>(),
                  std::make_shared<dense>("output", hidden, classes)});
}

/// Two convolutions with 3 x 3 pixels, 8 and 16 channels, a pool and a dense layer.
inline network convolutional(image_shape image, std::size_t classes) {
  if (image.height < 6 || image.width < 6) throw std::invalid_argument("train::convolutional: needs 6 x 6 pixels");
  patches const first(image);
  patches const second({first.shape().height, first.shape().width, 8});
  average_pool const pool({second.shape().height, second.shape().width, 16});
  return network({std::make_shared<patches>(first), std::make_shared<dense>("first", first.shape().channels, 8, 9),
                  std::make_shared<relu>(), std::make_shared<patches>(second),
                  std::make_shared<dense>("second", second.shape().channels, 16, 9), std::make_shared<relu>(),
                  std::make_shared<average_pool>(pool),
                  std::make_shared<dense>("output", pool.shape().size(), classes)});
}

/// The model of a name, for the images of `data`.
inline network make_network(std::string_view model, dataset const& data) {
  auto const classes = static_cast<std::size_t>(data.classes);
  if (model == "mlp") return mlp(data.shape, classes);
  if (model == "convolutional") return convolutional(data.shape, classes);
  throw std::invalid_argument("train::make_network: the model must be mlp or convolutional");
}

}  // namespace train
