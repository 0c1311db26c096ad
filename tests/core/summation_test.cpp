// tests/core/summation_test.cpp — the tree of sums, against a recursive drawing of it.
#include <pith/core/detail/summation.hpp>
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

/// Folds the upper half of the values onto the lower: the half is the largest power of two below their number.
template <class Merge>
double folded(std::vector<double> v, Merge merge) {
  while (v.size() > 1) {
    auto const half = std::bit_floor(v.size() - 1);
    for (auto i = half; i < v.size(); ++i) v[i - half] = merge(v[i - half], v[i]);
    v.resize(half);
  }
  return v[0];
}

/// Not commutative, so that the order shows.
struct lopsided {
  double operator()(double a, double b) const { return a - 0.5 * b; }
};

template <class Merge = pith::detail::plus>
double tree_sum(std::vector<double> const& x, Merge merge = {}) {
  if (x.empty()) return 0;
  if (x.size() == 1) return x[0];
  auto tiles = std::vector<double>();
  for (std::size_t first = 0; first < x.size(); first += 16384) {
    auto const count = std::min<std::size_t>(16384, x.size() - first);
    auto const at = x.begin() + static_cast<std::ptrdiff_t>(first);
    auto lanes = std::vector<double>(at, at + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2048, count)));
    for (std::size_t i = 2048; i < count; ++i) lanes[i % 2048] = merge(lanes[i % 2048], x[first + i]);
    tiles.push_back(folded(lanes, merge));
  }
  return tree_sum(tiles, merge);
}

struct at {
  double const* x;
  double operator()(std::uint64_t i) const { return x[i]; }
};

template <class Merge = pith::detail::plus>
double seq_sum(std::vector<double> const& x, Merge merge = {}) {
  auto memory = std::vector<std::byte>(pith::detail::reduce_scratch_bytes<double>(x.size()) + 128);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  double sum = -1;
  pith::detail::reduce_into(pith::seq, &sum, x.size(), at{x.data()}, merge, 0.0, ws);
  return sum;
}

}  // namespace

TEST_CASE("a reduction has the bits of the tree at every border") {
  for (auto const n : sizes) {
    CAPTURE(n);
    auto const x = rough(n);
    auto const expected = tree_sum(x);
    CHECK(seq_sum(x) == expected);
    CHECK(seq_sum(x, lopsided()) == tree_sum(x, lopsided()));
  }
}

TEST_CASE("the order of the tree is not the order of the elements") {
  auto const x = rough(100000);
  double in_order = 0;
  for (auto const v : x) in_order += v;
  CHECK(in_order != seq_sum(x));
}

TEST_CASE("rows that are merged side by side have the bits of each alone") {
  for (std::uint32_t const width : {1u, 2u, 3u, 7u, 8u, 24u, 128u, 136u}) {
    CAPTURE(width);
    auto const x = rough(3 * width);
    auto lanes = std::vector<double>(3 * width);
    auto const f = [&](std::uint32_t i) { return x[i]; };
    pith::detail::merge_rows(pith::serial_team(), lanes.data(), 3, width, f, lopsided());
    for (std::uint32_t r = 0; r < 3; ++r) {
      auto const row = std::vector<double>(x.begin() + r * width, x.begin() + (r + 1) * width);
      CHECK(lanes[r * pith::detail::row_stride(width)] == folded(row, lopsided()));
    }
  }
  auto const x = rough(512);
  auto lanes = std::vector<double>(256), known = lanes;
  auto const f = [&](std::uint32_t i) { return x[i]; };
  pith::detail::merge_rows(pith::serial_team(), lanes.data(), 4, 128u, f, lopsided());
  pith::detail::merge_rows(pith::serial_team(), known.data(), 4, pith::detail::constant<128>(), f, lopsided());
  for (std::size_t r = 0; r < 4; ++r) CHECK(lanes[64 * r] == known[64 * r]);
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
