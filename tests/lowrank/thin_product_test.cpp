// tests/lowrank/thin_product_test.cpp — products with thin matrices, by hand, and the bell.
#include <pith/exec/seq.hpp>
#include <pith/lowrank/thin_product.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include "support/vectors.hpp"

using namespace support;
namespace detail = pith::detail;

TEST_CASE_TEMPLATE("products of small matrices by hand", In, float, double, pith::half, pith::bfloat16) {
  using A = pith::accum<In>;
  auto const m = of<In>({1, 2, 3, 4, 5, 6});  // 2 x 3
  auto const q = of<A>({1, 0, -1, 2, 0, 1});  // 3 x 2
  auto p = std::vector<A>(4), back = std::vector<A>(6);
  pith::seq.for_each_index(4, detail::times_thin<In>{m.data(), q.data(), p.data(), 3, 2});
  CHECK(p == of<A>({-1, 7, -1, 16}));
  pith::seq.for_each_index(6, detail::transposed_times_thin<In>{m.data(), p.data(), back.data(), 2, 3, 2});
  CHECK(back == of<A>({-5, 71, -7, 94, -9, 117}));
  auto product = std::vector<In>(6);
  pith::seq.for_each_index(6, detail::thin_times_thin<In>{p.data(), q.data(), product.data(), 3, 2});
  CHECK(widen(product) == std::vector<double>{-1, 15, 7, -1, 33, 16});
}

TEST_CASE("the bell has mean zero and variance one and no tails") {
  std::uint64_t const step = 1;
  auto const random = pith::draws(pith::call{&step, 1, 0, 0, 0, 0, 0});
  double const n = 40000;
  double sum = 0, squares = 0, most = 0;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    auto const v = detail::bell<double>::at(random, i);
    sum += v;
    squares += v * v;
    most = std::max(most, std::abs(v));
  }
  CHECK(std::abs(sum / n) <= 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) <= 5 * std::sqrt(2 / n));  // the kurtosis is below that of a normal draw
  CHECK(most <= std::sqrt(24.0));                            // eight uniforms of variance 1/8, each within sqrt(3/8)
  CHECK(static_cast<float>(detail::bell<double>::at(random, 5)) == detail::bell<float>::at(random, 5));
}

TEST_CASE("a column that is zero or not finite is drawn anew and the others stay") {
  std::uint64_t const step = 1;
  auto const random = pith::draws(pith::call{&step, 1, 0, 0, 0, 0, 0});
  float const inf = static_cast<float>(infinity), nan_ = static_cast<float>(not_a_number);
  auto q = std::vector<float>{1, 0, nan_, 1, 0, 0, 2, inf, 0, 0, 5, 0};  // 3 x 4
  pith::seq.for_each_index(4, detail::renew_column<float>{random, q.data(), 3, 4});
  for (std::size_t j = 0; j < 3; ++j) {
    CHECK(q[j * 4] == std::vector<float>{1, 0, 0}[j]);
    CHECK(q[j * 4 + 1] == detail::bell<float>::at(random, j * 4 + 1));
    CHECK(q[j * 4 + 2] == detail::bell<float>::at(random, j * 4 + 2));
    CHECK(q[j * 4 + 3] == detail::bell<float>::at(random, j * 4 + 3));
  }
}
