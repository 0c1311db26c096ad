// tests/lowrank/thin_product_test.cpp — products with thin matrices, by hand, and the bell.
#include <pith/exec/seq.hpp>
#include <pith/lowrank/detail/approx_normal.hpp>
#include <pith/lowrank/detail/thin_product.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "support/vectors.hpp"

using namespace support;
namespace detail = pith::detail;

namespace {

/// What products take, and nothing more.
struct scratch {
  explicit scratch(detail::thin_shape const& size) : memory(detail::thin_scratch_bytes(size) + 128) {}
  std::vector<std::byte> memory;
  pith::workspace<> ws{pith::span<std::byte>(memory)};
};

template <class In>
std::vector<pith::accum<In>> product(detail::thin_shape size, std::vector<In> const& m,
                                     std::vector<pith::accum<In>> const& q) {
  auto p = std::vector<pith::accum<In>>(size.rows * size.rank);
  auto own = scratch(size);
  detail::multiply(pith::seq, size, pith::ext::plain_source<In>{m.data()}, q.data(), p.data(), own.ws);
  return p;
}
template <class In>
std::vector<pith::accum<In>> transposed_product(detail::thin_shape size, std::vector<In> const& m,
                                                std::vector<pith::accum<In>> const& p) {
  auto q = std::vector<pith::accum<In>>(size.columns * size.rank);
  auto own = scratch(size);
  detail::multiply_transposed(pith::seq, size, pith::ext::plain_source<In>{m.data()}, p.data(), q.data(), own.ws);
  return q;
}
template <class In>
std::vector<In> expansion(detail::thin_shape size, std::vector<pith::accum<In>> const& p,
                          std::vector<pith::accum<In>> const& q) {
  auto m = std::vector<In>(size.rows * size.columns);
  auto own = scratch(size);
  detail::expand(pith::seq, size, p.data(), q.data(), pith::ext::tensor_sink<In>{m.data(), 1}, own.ws);
  return m;
}

/// Whole numbers from -4 to 4, whose products and sums are exact in every type.
template <class T>
std::vector<T> whole_numbers(std::size_t n, std::uint64_t seed) {
  auto random = std::mt19937_64(seed);
  auto x = std::vector<double>(n);
  for (auto& v : x) v = static_cast<double>(random() % 9) - 4;
  return narrow<T>(x);
}

/// Sum of left(i, k) right(k, j) over k < terms, for all i < rows and j < columns.
template <class Left, class Right>
std::vector<double> naive(std::size_t rows, std::size_t columns, std::size_t terms, Left left, Right right) {
  auto sums = std::vector<double>(rows * columns);
  for (std::size_t i = 0; i < rows * columns; ++i) {
    for (std::size_t k = 0; k < terms; ++k) sums[i] += left(i / columns, k) * right(k, i % columns);
  }
  return sums;
}

}  // namespace

TEST_CASE_TEMPLATE("products of small matrices by hand", In, float, double, pith::half, pith::bfloat16) {
  using A = pith::accum<In>;
  auto const m = of<In>({1, 2, 3, 4, 5, 6});  // 2 x 3
  auto const q = of<A>({1, 0, -1, 2, 0, 1});  // 3 x 2
  auto const p = product({2, 3, 2}, m, q);
  CHECK(p == of<A>({-1, 7, -1, 16}));
  CHECK(transposed_product({2, 3, 2}, m, p) == of<A>({-5, 71, -7, 94, -9, 117}));
  CHECK(widen(expansion<In>({2, 3, 2}, p, q)) == std::vector<double>{-1, 15, 7, -1, 33, 16});
}

TEST_CASE_TEMPLATE("products of any size", In, float, double) {
  using A = pith::accum<In>;
  // Rows around a block's 4 and 16 and a slab's 64 rank, columns around 32 lanes, 8 steps of them, strips and segments.
  for (auto const& dims : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {3, 31}, {4, 33}, {15, 256}, {17, 300}, {63, 512}, {130, 520}, {641, 7}, {2, 8191}, {5, 16390}}) {
    auto const rows = dims.first, columns = dims.second;
    for (std::size_t const rank : {1u, 2u, 3u, 4u, 5u, 8u, 11u}) {
      CAPTURE(rows);
      CAPTURE(columns);
      CAPTURE(rank);
      auto const size = detail::thin_shape{rows, columns, rank};
      auto const m = whole_numbers<In>(rows * columns, 11);
      auto const p = whole_numbers<A>(rows * rank, 12), q = whole_numbers<A>(columns * rank, 13);
      auto const m_at = [&](std::size_t i, std::size_t j) { return static_cast<double>(m[i * columns + j]); };
      auto const p_at = [&](std::size_t i, std::size_t k) { return static_cast<double>(p[i * rank + k]); };
      auto const q_at = [&](std::size_t j, std::size_t k) { return static_cast<double>(q[j * rank + k]); };
      auto const turn = [](auto f) { return [f](std::size_t i, std::size_t j) { return f(j, i); }; };
      CHECK(widen(product(size, m, q)) == naive(rows, rank, columns, m_at, q_at));
      CHECK(widen(transposed_product(size, m, p)) == naive(columns, rank, rows, turn(m_at), p_at));
      CHECK(widen(expansion<In>(size, p, q)) == naive(rows, columns, rank, p_at, turn(q_at)));
    }
  }
}

TEST_CASE_TEMPLATE("products are sums in double, rounded once", In, float, pith::bfloat16) {
  auto const size = detail::thin_shape{33, 700, 4};
  auto const m = narrow<In>(normal_vector(33 * 700, 14));
  auto const q = narrow<float>(normal_vector(700 * 4, 15));
  auto const wide = widen(m), thin = widen(q);
  auto const p = product(size, m, q);
  for (std::size_t i = 0; i < p.size(); ++i) {
    double sum = 0, absolute = 0;
    for (std::size_t j = 0; j < 700; ++j) {
      auto const term = wide[i / 4 * 700 + j] * thin[j * 4 + i % 4];
      sum += term, absolute += std::abs(term);
    }
    // Both sums round 700 times at most.
    CHECK(std::abs(p[i] - sum) <= 0x1p-24 * std::abs(sum) + 2 * 700 * 0x1p-53 * absolute);
  }
}

TEST_CASE("the bell has mean zero and variance one and no tails") {
  std::uint64_t const step = 1;
  auto const random = pith::draws(pith::encoding_id{&step, 1, 0, 0, 0, 0, 0});
  double const n = 40000;
  double sum = 0, squares = 0, most = 0;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    auto const v = detail::approx_normal<double>::at(random, i);
    sum += v;
    squares += v * v;
    most = std::max(most, std::abs(v));
  }
  CHECK(std::abs(sum / n) <= 5 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) <= 5 * std::sqrt(2 / n));  // the kurtosis is below that of a normal draw
  CHECK(most <= std::sqrt(24.0));                            // eight uniforms of variance 1/8, each within sqrt(3/8)
  CHECK(static_cast<float>(detail::approx_normal<double>::at(random, 5)) ==
        detail::approx_normal<float>::at(random, 5));
}

TEST_CASE("a column that is zero or not finite is drawn again and the others stay") {
  std::uint64_t const step = 1;
  auto const random = pith::draws(pith::encoding_id{&step, 1, 0, 0, 0, 0, 0});
  float const inf = static_cast<float>(infinity), nan_ = static_cast<float>(not_a_number);
  auto q = std::vector<float>{1, 0, nan_, 1, 0, 0, 2, inf, 0, 0, 5, 0};  // 3 x 4
  pith::seq.for_each_block(4, detail::renew_column<float>{random, q.data(), 3, 4});
  for (std::size_t j = 0; j < 3; ++j) {
    CHECK(q[j * 4] == std::vector<float>{1, 0, 0}[j]);
    CHECK(q[j * 4 + 1] == detail::approx_normal<float>::at(random, j * 4 + 1));
    CHECK(q[j * 4 + 2] == detail::approx_normal<float>::at(random, j * 4 + 2));
    CHECK(q[j * 4 + 3] == detail::approx_normal<float>::at(random, j * 4 + 3));
  }
}
