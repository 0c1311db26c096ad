// examples/train/random.hpp — random numbers that are the same on every platform.
#pragma once

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/iota.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace train {

using generator = std::mt19937_64;  // the engine is fixed by the standard; its distributions and std::shuffle are not

/// The generator of one of the independent streams of a seed.
inline generator make_generator(std::uint64_t seed, std::uint64_t stream = 0) {
  std::seed_seq words{seed & 0xffffffffu, seed >> 32, stream & 0xffffffffu, stream >> 32};
  return generator(words);
}

/// A uniform number of [0, 1) with 53 bits.
inline double uniform(generator& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

/// A number of mean 0 and variance 1: a sum of twelve uniforms is nearly normal and, unlike a logarithm, rounds alike
/// everywhere.
inline double normal(generator& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += uniform(random);
  return sum;
}

/// 0, 1, ..., n - 1 in random order (Fisher and Yates; the bias of the remainder is below n / 2^64).
inline std::vector<std::size_t> permutation(std::size_t n, generator random) {
  auto order = ranges::views::iota(std::size_t{0}, n) | ranges::to<std::vector>();
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

}  // namespace train
