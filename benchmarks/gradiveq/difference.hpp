// benchmarks/gradiveq/difference.hpp — the relative difference of two vectors.
#pragma once

#include <range/v3/view/zip.hpp>

#include <cmath>
#include <vector>

namespace gradiveq {

/// |x - y| / |y|.
template <class A>
double relative_difference(std::vector<A> const& x, std::vector<A> const& y) {
  double off = 0, all = 0;
  for (auto const& [a, b] : ranges::views::zip(x, y)) {
    off += std::pow(static_cast<double>(a) - static_cast<double>(b), 2);
    all += std::pow(static_cast<double>(b), 2);
  }
  return std::sqrt(off / all);
}

}  // namespace gradiveq
