// examples/train/check.hpp — bounds for the accuracy of compressed training relative to dense training.
#pragma once

#include "comparison.hpp"

#include <fmt/format.h>
#include <range/v3/algorithm/find.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// Bounds for the difference of a codec's test accuracy from that of dense float, in points (hundredths).
struct condition {
  std::string_view codec;
  double low, high;
};

/// Codecs with error feedback learn as well as dense float does; without it, top_k does not.
inline constexpr condition conditions[] = {
    {"ef(scaled_sign)", -1, 1}, {"ef(top_k(0.01))", -1, 1},  {"ef(random_k(0.1))", -1, 1},
    {"ef(qsgd<8>)", -1, 1},     {"ef(power_sgd(2))", -1, 1}, {"ef(top_k(0.01)|qsgd<8>)", -1, 1},
    {"top_k(0.01)", -100, -2},
};

inline trial const& trial_of(std::vector<trial> const& trials, std::string_view codec) {
  auto const found = ranges::find(trials, codec, &trial::codec);
  if (found == trials.end()) throw std::invalid_argument(fmt::format("train: there is no training by {}", codec));
  return *found;
}

inline bool holds(std::FILE* out, bool condition, std::string const& words) {
  fmt::print(out, "{}: {}\n", condition ? "holds" : "FAILS", words);
  return condition;
}

/// Prints for each bound whether it holds. Returns whether all hold.
inline bool check(std::FILE* out, task const& job, std::vector<trial> const& trials) {
  auto const share = 100 * compressed_share(job.net), dense = trial_of(trials, dense_float).accuracy();
  bool all = holds(out, share >= 95, fmt::format("{:.1f} % of the parameters are compressed, at least 95", share));
  for (auto const& [codec, low, high] : conditions) {
    auto const points = 100 * (trial_of(trials, codec).accuracy() - dense);
    all &= holds(out, low <= points && points <= high,
                 fmt::format("{} is {:+.2f} points from dense float, within [{}, {}]", codec, points, low, high));
  }
  return all;
}

}  // namespace train
