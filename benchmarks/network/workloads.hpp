// benchmarks/network/workloads.hpp — the exchanged tensors: single tensors, and those of models.
#pragma once

#include "../resnet50.hpp"

#include <pith/exchange/codec_policy.hpp>

#include <range/v3/numeric/accumulate.hpp>
#include <range/v3/view/enumerate.hpp>

#include <bit>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace network {

using tensors = std::vector<pith::tensor_spec>;

inline void add(tensors& to, std::uint64_t rows, std::uint64_t columns) {
  to.push_back({std::to_string(to.size()), {rows * columns, rows}});
}
inline void add_vector(tensors& to, std::uint64_t n) { add(to, 1, n); }
/// A convolution with `kernel` pixels, without a bias, and a batch normalisation after it.
inline void add_convolution(tensors& to, std::uint64_t from, std::uint64_t channels, std::uint64_t kernel = 9) {
  add(to, channels, from * kernel);
  add_vector(to, channels);
  add_vector(to, channels);
}

/// ResNet-20 of width 16, for 10 classes (He et al., CVPR 2016). Where the width grows, the shortcut is a convolution.
inline tensors resnet20() {
  auto all = tensors();
  add_convolution(all, 3, 16);
  auto from = std::uint64_t{16};
  for (auto const channels : {16u, 32u, 64u}) {
    if (channels != from) add_convolution(all, from, channels, 1);
    for (auto layer = 0; layer < 6; ++layer) {
      add_convolution(all, from, channels);
      from = channels;
    }
  }
  add(all, 10, from);
  add_vector(all, 10);
  return all;
}

/// A quarter as wide as the original, for 10 classes (Simonyan and Zisserman, ICLR 2015).
inline tensors vgg11() {
  auto all = tensors();
  auto from = std::uint64_t{3};
  for (auto const channels : {16u, 32u, 64u, 64u, 128u, 128u, 128u, 128u}) {
    add_convolution(all, from, channels);
    from = channels;
  }
  add(all, 10, from);
  add_vector(all, 10);
  return all;
}

/// A language model of two layers of 96 units over 4,000 words.
inline tensors lstm() {
  auto all = tensors();
  add(all, 4000, 96);
  for (auto layer = 0; layer < 2; ++layer) {
    for (auto matrix = 0; matrix < 2; ++matrix) add(all, 4 * 96, 96);
    for (auto bias = 0; bias < 2; ++bias) add_vector(all, 4 * 96);
  }
  add(all, 4000, 96);
  add_vector(all, 4000);
  return all;
}

inline tensors resnet50() {
  auto all = tensors();
  for (auto const& [i, dims] : ranges::views::enumerate(bench::resnet50.shapes()))
    all.push_back({std::to_string(i), dims});
  return all;
}

/// A model by its name, or a tensor of a number of KiB, a power of two, as a nearly square matrix.
inline tensors workload(std::string_view name) {
  if (name == "ResNet-20") return resnet20();
  if (name == "VGG-11") return vgg11();
  if (name == "LSTM") return lstm();
  if (name == "ResNet-50") return resnet50();
  auto const bytes = std::stoull(std::string(name)) << 10;
  if (!std::has_single_bit(bytes)) throw std::invalid_argument("a size is a power of two of KiB");
  std::uint64_t const n = bytes / sizeof(float), rows = std::uint64_t{1} << std::countr_zero(n) / 2;
  auto all = tensors();
  add(all, rows, n / rows);
  return all;
}

inline std::uint64_t elements(tensors const& all) {
  return ranges::accumulate(all, std::uint64_t{0}, std::plus<>(), [](pith::tensor_spec const& t) { return t.dims.n; });
}

}  // namespace network
