// tests/golden/reference.hpp — the vectors of GRACE's PyTorch code, and how to agree with them.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "support/npy.hpp"
#include "support/roundtrip.hpp"

namespace support {

inline std::string path_of(std::string const& name) { return std::string(PITH_TEST_DATA) + "/golden/" + name + ".npy"; }
inline std::vector<double> golden(std::string const& name) { return widen(read_npy(path_of(name)).values); }

/// Row `step` of five.
inline std::vector<double> row(std::vector<double> const& all, int step) {
  auto const begin = all.begin() + step * 256;
  return {begin, begin + 256};
}

inline double largest(std::vector<double> const& x) {
  double most = 0;
  for (auto const v : x) most = std::max(most, std::abs(v));
  return most;
}

template <class State>
std::vector<double> residual_of(State& state) {
  auto const view = std::get<1>(state.local().each).residual.view();
  return widen(std::vector<float>(view.begin(), view.end()));
}

/// Mean and variance over `draws` steps of `codec` on rnd64 against those of the reference, which had 2,000 draws: both
/// means have an error of sqrt(variance / draws), each variance one of its own, of kurtosis 1 / (p (1 - p)) at worst.
template <class C>
void agrees_with(C const& codec, std::string const& name, std::vector<double> const& variance) {
  CAPTURE(name);
  int const draws = 4000;
  auto const x = golden("in_rnd64");
  auto t = trial<float, C>(codec, {64});
  auto mean = std::vector<double>(64), square = mean;
  for (int step = 0; step < draws; ++step) {
    auto const y = widen(t.roundtrip(narrow<float>(x)));
    for (std::size_t i = 0; i < 64; ++i) mean[i] += y[i] / draws, square[i] += y[i] * y[i] / draws;
  }
  auto const their_mean = golden("rnd_" + name + "_mean"), their_variance = golden("rnd_" + name + "_var");
  double ours = 0, theirs = 0, exact = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    auto const error = std::sqrt(variance[i] * (1.0 / draws + 1.0 / 2000));
    // An event of a probability below 10 / 2000 may not have been seen by either: its part of the mean is then lost.
    CHECK(std::abs(mean[i] - their_mean[i]) <=
          5 * error + 10.0 / 2000 * std::sqrt(variance[i]) + 1e-4 * std::abs(x[i]));
    ours += square[i] - mean[i] * mean[i], theirs += their_variance[i], exact += variance[i];
  }
  // 64 independent elements; at least a quarter of them matter: 5 sqrt(kurtosis / (16 draws)) with kurtosis 8.
  CHECK(std::abs(ours - exact) <= 5 * std::sqrt(8.0 / (16 * draws)) * exact);
  CHECK(std::abs(theirs - exact) <= 5 * std::sqrt(8.0 / (16 * 2000)) * exact);
}

}  // namespace support
