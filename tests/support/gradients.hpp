// tests/support/gradients.hpp — reads one step of a model's gradients: tests/data/gradients/README.md.
#pragma once

#include <pith/core/element.hpp>
#include <pith/core/shape.hpp>

#include "support/npy.hpp"

#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace support {

/// The tensors of a model in order, and their values one after the other.
struct gradients {
  struct tensor {
    std::string name;
    pith::shape dims;
  };
  std::vector<tensor> tensors;
  std::vector<float> values;
};

/// The shape of sizes such as 16x3x3x3: a matrix of 16 rows. A single size is a vector.
inline pith::shape shape_of(std::string const& sizes) {
  auto text = std::istringstream(sizes);
  auto all = std::vector<std::uint64_t>();
  for (std::string size; std::getline(text, size, 'x');) all.push_back(std::stoull(size));
  if (all.empty()) throw std::runtime_error("\"" + sizes + "\" is no shape");
  auto dims = pith::shape{1, all.size() > 1 ? all[0] : 1};
  for (auto const size : all) dims.n *= size;
  return dims;
}

/// PATH.csv has one line per tensor, PATH.npy the values.
inline gradients read_gradients(std::string const& path) {
  auto read = gradients{{}, read_npy(path + ".npy").values};
  auto table = std::ifstream(path + ".csv");
  std::uint64_t n = 0;
  auto line = std::string();
  for (std::getline(table, line); std::getline(table, line);) {
    auto const comma = line.find(',');
    if (comma == std::string::npos) throw std::runtime_error(path + ".csv: \"" + line + "\" is no tensor,shape");
    read.tensors.push_back({line.substr(0, comma), shape_of(line.substr(comma + 1))});
    n += read.tensors.back().dims.n;
  }
  if (n != read.values.size()) throw std::runtime_error(path + ".csv: its shapes hold not as many values as the .npy");
  return read;
}

/// resnet20_series.bf16: one convolution's gradient, 32 filters x 32 channels x 3 x 3, in consecutive steps.
inline std::vector<std::vector<pith::bfloat16>> read_series(std::string const& path, std::size_t n = 9216) {
  auto file = std::ifstream(path, std::ios::binary);
  if (!file.is_open()) throw std::runtime_error(path + ": cannot be opened");
  auto steps = std::vector<std::vector<pith::bfloat16>>();
  for (auto step = std::vector<pith::bfloat16>(n);
       file.read(reinterpret_cast<char*>(step.data()), static_cast<std::streamsize>(n * sizeof step[0]));)
    steps.push_back(step);
  if (file.gcount() != 0) throw std::runtime_error(path + ": has no whole number of steps");
  return steps;
}

}  // namespace support
