// examples/train/statistics.hpp — means, deviations and confidence intervals.
#pragma once

#include <range/v3/numeric/accumulate.hpp>
#include <range/v3/view/reverse.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace train {

inline double mean(std::vector<double> const& x) { return ranges::accumulate(x, 0.0) / static_cast<double>(x.size()); }

/// The deviation of the population that x is a sample of; 0 for a single value.
inline double standard_deviation(std::vector<double> const& x) {
  if (x.size() < 2) return 0;
  auto const square = [m = mean(x)](double value) { return (value - m) * (value - m); };
  return std::sqrt(ranges::accumulate(x, 0.0, std::plus<>(), square) / static_cast<double>(x.size() - 1));
}

inline double median(std::vector<double> x) {
  auto const middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

/// The 0.975 quantile of Student's distribution, within 0.01 of it from 4 degrees of freedom on (Abramowitz and Stegun
/// 26.7.5).
inline double student(double freedom) {
  constexpr double z = 1.959963984540054, z2 = z * z;
  double const terms[] = {1, (z2 + 1) / 4, ((5 * z2 + 16) * z2 + 3) / 96, (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384};
  double sum = 0;
  for (auto const term : ranges::views::reverse(terms)) sum = sum / freedom + term;
  return z * sum;
}

/// The mean of the population of the sample x lies between `low` and `high` with 95 % confidence.
struct interval {
  double low, high;
};

inline interval confidence(std::vector<double> const& x) {
  auto const n = static_cast<double>(x.size());
  auto const half = student(n - 1) * standard_deviation(x) / std::sqrt(n);
  return {mean(x) - half, mean(x) + half};
}

}  // namespace train
