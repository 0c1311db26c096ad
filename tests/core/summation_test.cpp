// tests/core/summation_test.cpp — the tree of sums, against a recursive drawing of it.
#include <pith/core/summation.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace {

constexpr std::uint64_t sizes[] = {0, 1, 2, 3, 7, 2047, 2048, 2049, 4096, 4097, 16383, 16384, 16385, 49152, 100000};

/// Numbers of very different sizes, so that another order gives other bits.
std::vector<double> rough(std::uint64_t n) {
  auto random = std::mt19937_64(5);
  auto x = std::vector<double>(n);
  for (auto& v : x) v = std::ldexp(static_cast<double>(random() >> 11) - 0x1p52, -static_cast<int>(random() % 60));
  return x;
}

/// The pairwise sum of leaf(i), first <= i < first + n: the left half is the largest power of two below n.
template <class Leaf, class Merge>
double pairwise(std::uint64_t first, std::uint64_t n, Leaf const& leaf, Merge merge) {
  if (n == 1) return leaf(first);
  auto const left = std::bit_floor(n - 1);
  return merge(pairwise(first, left, leaf, merge), pairwise(first + left, n - left, leaf, merge));
}

/// Tells left from right.
struct lopsided {
  double operator()(double a, double b) const { return a - 0.5 * b; }
};

template <class Merge = pith::detail::plus>
double tree_sum(std::vector<double> const& x, Merge merge = {}) {
  if (x.empty()) return 0;
  auto const tile_sum = [&](std::uint64_t tile) {
    auto const first = tile * 16384;
    auto const count = std::min<std::uint64_t>(16384, x.size() - first);
    auto const lane_sum = [&](std::uint64_t lane) {
      double sum = x[first + lane];
      for (auto i = lane + 2048; i < count; i += 2048) sum = merge(sum, x[first + i]);
      return sum;
    };
    return pairwise(0, std::min<std::uint64_t>(2048, count), lane_sum, merge);
  };
  return pairwise(0, (x.size() + 16383) / 16384, tile_sum, merge);
}

struct at {
  double const* x;
  double operator()(std::uint64_t i) const { return x[i]; }
};

template <class Merge = pith::detail::plus>
double seq_sum(std::vector<double> const& x, Merge merge = {}) {
  auto memory = std::vector<std::byte>(pith::seq.reduce_scratch_bytes<double>(x.size()));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  double sum = -1;
  pith::seq.reduce_into(&sum, x.size(), at{x.data()}, merge, 0.0, ws);
  return sum;
}

}  // namespace

TEST_CASE("a reduction has the bits of the tree at every border") {
  for (auto const n : sizes) {
    CAPTURE(n);
    auto const x = rough(n);
    auto const expected = tree_sum(x);
    CHECK(pith::detail::reduce_tree(0, n, at{x.data()}, pith::detail::plus{}, 0.0) == expected);
    CHECK(seq_sum(x) == expected);
    CHECK(seq_sum(x, lopsided()) == tree_sum(x, lopsided()));
    CHECK(pith::detail::reduce_tree(0, n, at{x.data()}, lopsided(), 0.0) == tree_sum(x, lopsided()));
  }
}

TEST_CASE("the order of the tree is not the order of the elements") {
  auto const x = rough(100000);
  double in_order = 0;
  for (auto const v : x) in_order += v;
  CHECK(in_order != seq_sum(x));
}

TEST_CASE("a tree may begin anywhere") {
  auto const x = rough(5000);
  auto const tail = std::vector<double>(x.begin() + 700, x.end());
  CHECK(pith::detail::reduce_tree(700, 4300, at{x.data()}, pith::detail::plus{}, 0.0) == tree_sum(tail));
}

TEST_CASE("the larger of two numbers is NaN if either is") {
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  auto const larger = pith::detail::larger{};
  CHECK(larger(1, 2) == 2);
  CHECK(larger(2, 1) == 2);
  CHECK(std::isnan(larger(nan, 1)));
  CHECK(std::isnan(larger(1, nan)));
  CHECK(larger(1, std::numeric_limits<double>::infinity()) == std::numeric_limits<double>::infinity());
}
