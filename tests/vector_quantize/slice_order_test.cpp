// tests/vector_quantize/slice_order_test.cpp — where the elements of slices lie.
#include <pith/core/team.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <vector>

using pith::conv_shape;
using pith::kernel_layout;
using pith::slice_order;

namespace {

/// What a naive walk over height, width, depth and filters, the last one fastest, finds in OIHW.
std::vector<std::uint64_t> by_hand(conv_shape const& c) {
  auto places = std::vector<std::uint64_t>();
  for (std::uint64_t h = 0; h < c.height; ++h) {
    for (std::uint64_t w = 0; w < c.width; ++w) {
      for (std::uint64_t i = 0; i < c.depth; ++i) {
        for (std::uint64_t o = 0; o < c.filters; ++o)
          places.push_back(((o * c.depth + i) * c.height + h) * c.width + w);
      }
    }
  }
  return places;
}

constexpr conv_shape kernels[] = {{1, 1, 1, 1}, {4, 1, 1, 1},  {1, 5, 1, 1}, {1, 1, 3, 2},
                                  {3, 4, 1, 1}, {16, 3, 3, 3}, {5, 7, 2, 3}, {2, 9, 3, 1}};

}  // namespace

TEST_CASE("a kernel in OIHW is read as it would lie in HWIO") {
  for (auto const& c : kernels) {
    auto const order = c.order();
    auto const expected = by_hand(c);
    REQUIRE(expected.size() == c.n());
    CHECK(order.fits(c.n()));
    for (std::uint64_t i = 0; i < c.n(); ++i) CHECK(order(i) == expected[i]);
  }
}

TEST_CASE("a walk goes to the same places wherever it begins and ends") {
  for (auto const& c : kernels) {
    for (auto const& order : {c.order(), slice_order()}) {
      for (std::uint64_t first = 0; first < c.n(); ++first) {
        for (auto count : {std::uint64_t{0}, std::uint64_t{1}, (c.n() - first) / 2, c.n() - first}) {
          auto seen = std::vector<std::uint64_t>(count, ~std::uint64_t{0});
          unsigned calls = 0;
          order.walk(pith::serial_team(), first, static_cast<std::uint32_t>(count),
                     [&](std::uint32_t i, std::uint64_t place) { seen.at(i) = place, ++calls; });
          REQUIRE(calls == count);
          for (std::uint64_t i = 0; i < count; ++i) REQUIRE(seen[i] == order(first + i));
        }
      }
    }
  }
}

TEST_CASE("an order fits the tensors that have its sizes") {
  CHECK(slice_order().fits(17));
  CHECK(slice_order::oihw(4, 3, 9).fits(108));
  for (std::uint64_t const n : {0u, 1u, 107u, 109u, 216u, 54u}) CHECK(!slice_order::oihw(4, 3, 9).fits(n));
  CHECK_THROWS_WITH_AS(slice_order::oihw(0, 3, 9), "pith::slice_order::oihw: filters must be in [1, 2^31), got 0",
                       std::invalid_argument);
  CHECK_THROWS_AS(slice_order::oihw(1u << 31, 3, 9), std::invalid_argument);
  CHECK_THROWS_WITH_AS(slice_order::oihw(4, 0, 9),
                       "pith::slice_order::oihw: depth and window must be at least 1, got 0 and 9",
                       std::invalid_argument);
  CHECK_THROWS_AS(slice_order::oihw(4, 3, 0), std::invalid_argument);
}

TEST_CASE("slices of whole places are aligned, and the usual ones are") {
  auto const paper = conv_shape{16, 16, 3, 3, kernel_layout::hwio};
  CHECK(paper.order().is_plain());
  CHECK(paper.usual_slice() == 768);  // of 3 places: 9 would be 2304
  CHECK(paper.is_aligned(256));
  CHECK(paper.is_aligned(768));
  CHECK(!paper.is_aligned(512 + 128));
  CHECK(conv_shape{32, 32, 3, 3}.usual_slice() == 1024);
  CHECK(conv_shape{64, 64, 3, 3}.usual_slice() == 4096);  // one place at least
  CHECK(conv_shape{64, 64, 3, 3}.usual_slice(4 * 4096) == 3 * 4096);
  CHECK(conv_shape{16, 3, 3, 3}.usual_slice() == 9 * 48);
  CHECK(conv_shape{16, 3, 7, 7}.usual_slice() == 7 * 48);
  CHECK(conv_shape{8, 8, 1, 1}.usual_slice() == 64);
}
