// tests/support/small_floats.hpp — the numbers of formats of a few bits, and naive rounding to them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace support {

/// The magnitudes of an element format in the order of their codes, and the exponent of the largest.
struct small_format {
  int mantissa, max_exponent;
  std::vector<double> numbers;
};

/// The numbers of `exponents` exponent fields. The first field has the numbers below 2^least.
inline small_format float_format(int exponents, int mantissa, int least, std::size_t unused = 0) {
  auto all = std::vector<double>();
  for (int field = 0; field < exponents; ++field) {
    for (int m = 0; m < 1 << mantissa; ++m) {
      auto const exponent = field == 0 ? least : least + field - 1;
      all.push_back(std::ldexp((field == 0 ? 0 : 1) + std::ldexp(m, -mantissa), exponent));
    }
  }
  all.resize(all.size() - unused);
  return {mantissa, std::ilogb(all.back()), all};
}

/// The number of a format that is nearest to v, where ties go to the even code.
inline double nearest(double v, std::vector<double> const& numbers) {
  auto const above = std::lower_bound(numbers.begin(), numbers.end(), v);
  if (above == numbers.end()) return numbers.back();
  if (above == numbers.begin()) return numbers.front();
  auto const up = *above - v, down = v - *(above - 1);
  auto const is_even = (above - numbers.begin()) % 2 == 0;
  return up < down || (up == down && is_even) ? *above : *(above - 1);
}

}  // namespace support
