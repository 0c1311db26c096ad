// benchmarks/samples.hpp — inputs of the catalogue: values of three distributions, and gradients of two models.
#pragma once

#include "subject.hpp"

#include "support/gradients.hpp"
#include "support/vectors.hpp"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// Tensors, their values one after the other.
struct sample {
  std::string name;
  std::vector<pith::shape> tensors;
  std::vector<float> values;
};

/// Scales to a mean square of 1, so that a threshold, or a sign without a scale, means the same for all samples.
inline sample scaled(sample s) {
  double sum = 0;
  for (auto const v : s.values) sum += std::pow(static_cast<double>(v), 2);
  auto const factor = std::sqrt(static_cast<double>(s.values.size()) / sum);
  for (auto& v : s.values) v = static_cast<float>(v * factor);
  return s;
}

inline double laplace(std::mt19937_64& random) {
  auto const u = support::uniform(random) - 0.5;
  return std::copysign(std::log(1 - 2 * std::abs(u)), u);
}
inline double normal_cubed(std::mt19937_64& random) { return std::pow(support::normal(random), 3); }

/// A matrix of 2^log2n draws.
inline sample drawn(std::string name, unsigned log2n, double draw(std::mt19937_64&)) {
  auto s = sample{std::move(name), {matrix_of(log2n)}, std::vector<float>(std::size_t{1} << log2n)};
  auto random = std::mt19937_64(1);
  for (auto& v : s.values) v = static_cast<float>(draw(random));
  return scaled(std::move(s));
}

/// One step of a model.
inline sample read_sample(std::string name, std::string const& path) {
  auto from = support::read_gradients(path);
  auto s = sample{std::move(name), {}, std::move(from.values)};
  for (auto const& t : from.tensors) s.tensors.push_back(t.dims);
  return scaled(std::move(s));
}

/// All samples; methods are timed on the first. `data` has the models' gradients.
inline std::vector<sample> all_samples(unsigned log2n, std::string const& data) {
  return {drawn("normal", log2n, support::normal), drawn("Laplace", log2n, laplace),
          drawn("normal cubed", log2n, normal_cubed), read_sample("ResNet-20", data + "/resnet20"),
          read_sample("LSTM", data + "/lstm")};
}

}  // namespace bench
