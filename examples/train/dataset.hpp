// examples/train/dataset.hpp — images with labels, and their splits into training and test images.
#pragma once

#include "random.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

namespace train {

/// The shape of one image. Pixels follow each other row by row, the channels of a pixel stand together.
struct image_shape {
  std::size_t height, width, channels;

  std::size_t size() const { return height * width * channels; }
  bool operator==(image_shape const&) const = default;
};

/// Labelled images, one after the other, with values in [0, 1]; labels are in [0, classes).
struct dataset {
  std::vector<float> images;
  std::vector<int> labels;
  image_shape shape;
  int classes;

  std::size_t size() const { return labels.size(); }

  /// The values of n images from the first.
  std::span<float const> pixels(std::size_t first, std::size_t n) const {
    return {images.data() + first * shape.size(), n * shape.size()};
  }
};

struct split {
  dataset train, test;
};

/// The images of `data` at the places `rows`.
inline dataset subset(dataset const& data, std::span<std::size_t const> rows) {
  dataset chosen{{}, {}, data.shape, data.classes};
  chosen.images.reserve(rows.size() * data.shape.size());
  chosen.labels.reserve(rows.size());
  for (std::size_t row : rows) {
    std::ranges::copy(data.pixels(row, 1), std::back_inserter(chosen.images));
    chosen.labels.push_back(data.labels[row]);
  }
  return chosen;
}

/// Cross-validation: shuffles the images, the same way in each call, cuts them into `folds` nearly equal parts, and
/// takes part `fold` for the test.
inline split fold(dataset const& data, std::size_t fold, std::size_t folds) {
  if (fold >= folds || folds > data.size()) throw std::invalid_argument("train::fold: needs fold < folds <= images");
  auto order = permutation(data.size(), make_generator(0));
  auto const begin = static_cast<std::ptrdiff_t>(fold * data.size() / folds);
  auto const end = static_cast<std::ptrdiff_t>((fold + 1) * data.size() / folds);
  std::rotate(order.begin() + begin, order.begin() + end, order.end());  // the part goes to the end
  auto const rows = std::span<std::size_t const>(order);
  auto const test = static_cast<std::size_t>(end - begin);
  return {subset(data, rows.first(rows.size() - test)), subset(data, rows.last(test))};
}

}  // namespace train
