// dataset.hpp — samples for training and validation, drawn at random or one after another.
#pragma once

#include "network.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pith_libtorch {

/// The base of the data sets. A split is "training" or "validation", and has random numbers of its own.
class dataset {
 public:
  explicit dataset(std::uint64_t seed) {
    for (auto const* split : {"training", "validation"}) draws_[split] = at::make_generator<at::CPUGeneratorImpl>(seed);
  }
  virtual ~dataset() = default;

  /// Draws samples with replacement.
  virtual samples draw(std::string const& split, std::int64_t size) = 0;
  /// All samples of the validation split, in parts.
  virtual std::vector<samples> validation() const = 0;

  /// The states of the random numbers, for checkpoints.
  std::map<std::string, at::Generator>& draws() { return draws_; }

 protected:
  /// `size` random integers below `most`.
  torch::Tensor random(std::string const& split, std::int64_t most, std::int64_t size) {
    return torch::randint(most, {size}, draws_.at(split), torch::kLong);
  }

 private:
  std::map<std::string, at::Generator> draws_;
};

}  // namespace pith_libtorch
