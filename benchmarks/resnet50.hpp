// benchmarks/resnet50.hpp — the 161 tensors of ResNet-50, a model of many small tensors and a few large ones.
#pragma once

#include <pith/core/shape.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace bench {

/// The shapes of the gradients in the order of the layers. A convolution is a matrix: outputs x (inputs x width x
/// height); each is followed by a batch normalisation of two vectors.
///
///   reference   He, Zhang, Ren and Sun, CVPR 2016, table 1
class resnet50_tensors {
 public:
  static constexpr std::size_t count = 161;

  constexpr resnet50_tensors() {
    convolution(64, 3, 7);
    std::uint64_t inputs = 64;
    for (auto const& s : {stage{3, 64}, stage{4, 128}, stage{6, 256}, stage{3, 512}}) inputs = add(s, inputs);
    matrix(1000, inputs);
    vector(1000);
  }

  constexpr auto const& shapes() const { return shapes_; }
  constexpr std::uint64_t parameters() const {
    std::uint64_t sum = 0;
    for (auto const& s : shapes_) sum += s.n;
    return sum;
  }

 private:
  struct stage {
    unsigned blocks;
    std::uint64_t width;
  };

  /// Blocks of three convolutions; the first block has a fourth one as shortcut. Returns the number of outputs.
  constexpr std::uint64_t add(stage const& s, std::uint64_t inputs) {
    auto const outputs = 4 * s.width;
    for (unsigned block = 0; block < s.blocks; ++block) {
      convolution(s.width, inputs, 1);
      convolution(s.width, s.width, 3);
      convolution(outputs, s.width, 1);
      if (block == 0) convolution(outputs, inputs, 1);
      inputs = outputs;
    }
    return outputs;
  }
  constexpr void convolution(std::uint64_t outputs, std::uint64_t inputs, std::uint64_t side) {
    matrix(outputs, inputs * side * side);
    vector(outputs);
    vector(outputs);
  }
  constexpr void matrix(std::uint64_t rows, std::uint64_t columns) { shapes_[used_++] = {rows * columns, rows}; }
  constexpr void vector(std::uint64_t n) { shapes_[used_++] = {n}; }

  std::array<pith::shape, count> shapes_{};
  std::size_t used_ = 0;
};

inline constexpr auto resnet50 = resnet50_tensors();
static_assert(resnet50.shapes().back().n == 1000 && resnet50.parameters() == 25'557'032);

}  // namespace bench
