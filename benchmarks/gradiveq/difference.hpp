// benchmarks/gradiveq/difference.hpp — the relative difference of two vectors.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace gradiveq {

/// |x - y| / |y|.
template <class A>
double relative_difference(std::vector<A> const& x, std::vector<A> const& y) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    off += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
    all += std::pow(static_cast<double>(y[i]), 2);
  }
  return std::sqrt(off / all);
}

}  // namespace gradiveq
