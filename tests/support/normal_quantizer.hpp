// tests/support/normal_quantizer.hpp — the quantizer of N(0, 1) with the least squared error, by Newton's method.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace support {

/// The symmetric quantizer with 2^bits points: point i is the mean of the values between borders i and i + 1.
struct normal_quantizer {
  std::vector<double> points, borders;  ///< those of the positive half; the last border is infinite

  explicit normal_quantizer(unsigned bits) {
    auto const n = std::size_t{1} << (bits - 1);
    for (std::size_t i = 0; i < n; ++i) points.push_back(4 * (static_cast<double>(i) + 0.5) / static_cast<double>(n));
    for (int lloyd = 0; lloyd < 3000; ++lloyd) points = means();
    for (int newton = 0; newton < 8; ++newton) improve();
    for (auto& p : points) p = std::round(p * 1e7) / 1e7;
    set_borders();
  }

  /// The density of N(0, 1), and the probability of a value above x.
  static double density(double x) { return std::exp(-x * x / 2) / std::sqrt(8 * std::atan(1.0)); }
  static double above(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

 private:
  double low(std::size_t i) const { return borders[i]; }
  double high(std::size_t i) const { return borders[i + 1]; }
  double mass(std::size_t i) const { return above(low(i)) - above(high(i)); }
  double moment(std::size_t i) const { return density(low(i)) - density(high(i)); }

  void set_borders() {
    borders = {0};
    for (std::size_t i = 0; i + 1 < points.size(); ++i) borders.push_back((points[i] + points[i + 1]) / 2);
    borders.push_back(std::numeric_limits<double>::infinity());
  }
  std::vector<double> means() {
    set_borders();
    auto made = std::vector<double>();
    for (std::size_t i = 0; i < points.size(); ++i) made.push_back(moment(i) / mass(i));
    return made;
  }
  /// One step of Newton's method for points[i] mass(i) = moment(i), whose matrix is tridiagonal.
  void improve() {
    set_borders();
    auto const n = points.size();
    auto upper = std::vector<double>(n), change = std::vector<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      auto const below = i == 0 ? 0 : (points[i] - low(i)) * density(low(i)) / 2;
      auto const beyond = i + 1 == n ? 0 : (points[i] - high(i)) * density(high(i)) / 2;
      auto const before = i == 0 ? 0 : upper[i - 1], moved = i == 0 ? 0 : change[i - 1];
      auto const pivot = mass(i) + beyond - below + below * before;
      upper[i] = beyond / pivot;
      change[i] = (moment(i) - points[i] * mass(i) + below * moved) / pivot;
    }
    for (auto i = n - 1; i > 0; --i) change[i - 1] -= upper[i - 1] * change[i];
    for (std::size_t i = 0; i < n; ++i) points[i] += change[i];
  }
};

}  // namespace support
