// tests/lowrank/orthonormalize_test.cpp — orthonormal columns, also of matrices that have none.
#include <pith/exec/seq.hpp>
#include <pith/lowrank/detail/orthonormalize.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include "support/vectors.hpp"

using namespace support;

namespace {

template <class A>
std::vector<double> orthonormal(std::vector<double> const& p, std::size_t rank) {
  auto q = narrow<A>(p);
  auto const rows = p.size() / rank;
  auto memory = std::vector<std::byte>(pith::detail::orthonormalize_scratch_bytes(rows, rank) + 128);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  pith::detail::orthonormalize(pith::seq, q.data(), rows, rank, ws);
  return widen(q);
}

double column_dot(std::vector<double> const& a, std::size_t i, std::vector<double> const& b, std::size_t j,
                  std::size_t rank) {
  double sum = 0;
  for (std::size_t r = 0; r < a.size() / rank; ++r) sum += a[r * rank + i] * b[r * rank + j];
  return sum;
}

}  // namespace

TEST_CASE("two columns by hand") {
  // (3, 4) and (1, 0): the second has 0.6 along (0.6, 0.8) and leaves (0.64, -0.48).
  auto const q = orthonormal<double>({3, 1, 4, 0}, 2);
  auto const expected = std::vector<double>{0.6, 0.8, 0.8, -0.6};
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(q[i] - expected[i]) <= 8 * 0x1p-53);
}

TEST_CASE_TEMPLATE("orthonormalized columns are orthonormal and span the same space as before", A, float, double) {
  for (std::size_t const rows : {4u, 16u, 1000u}) {
    for (std::size_t const rank : {1u, 2u, 4u, 7u, 32u}) {
      if (rank > rows) continue;
      for (double const size : {1e-15, 1.0, 1e15}) {
        CAPTURE(rows);
        CAPTURE(rank);
        CAPTURE(size);
        auto p = normal_vector(rows * rank, rows + rank);
        for (auto& v : p) v *= size;
        auto const q = orthonormal<A>(p, rank);
        // Each entry is rounded once after each of the 2 rank + 1 passes, and rounding errors of a column are at most
        // u |column| together. The oracle's own sum in double rounds as often as there are rows.
        auto const bound = (4.0 * static_cast<double>(rank) + 2) * roundoff<A>() + static_cast<double>(rows) * 0x1p-53;
        for (std::size_t i = 0; i < rank; ++i) {
          for (std::size_t j = 0; j < rank; ++j) {
            CHECK(std::abs(column_dot(q, i, q, j, rank) - (i == j)) <= bound);
          }
          // p_i lies in the span of q_0 .. q_i.
          double left = column_dot(p, i, p, i, rank), before = left;
          for (std::size_t j = 0; j <= i; ++j) left -= std::pow(column_dot(p, i, q, j, rank), 2);
          CHECK(std::abs(left) <= 16 * bound * before);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("a column that nearly depends on another is orthogonal to it still", A, float, double) {
  // The part that is left is some 30 times what counts as a rounding error, so it is kept and lies well.
  double const small = sizeof(A) == 8 ? 3e-12 : 3e-4;
  auto p = normal_vector(200, 5);
  for (std::size_t i = 0; i < 200; i += 2) p[i + 1] = p[i] + small * p[i + 1];
  auto const q = orthonormal<A>(p, 2);
  CHECK(std::abs(column_dot(q, 1, q, 1, 2) - 1) <= 10 * roundoff<A>());
  CHECK(std::abs(column_dot(q, 0, q, 1, 2)) <= 10 * roundoff<A>());
}

TEST_CASE_TEMPLATE("columns that depend on others and zero columns become zero", A, float, double) {
  auto p = std::vector<double>();
  for (auto const v : normal_vector(50, 6)) p.insert(p.end(), {v, 0, -3 * v, 2 * v});
  auto const q = orthonormal<A>(p, 4);
  CHECK(std::abs(column_dot(q, 0, q, 0, 4) - 1) <= 4 * roundoff<A>());
  for (std::size_t i = 0; i < q.size(); i += 4) {
    CHECK(q[i + 1] == 0);
    CHECK(q[i + 2] == 0);
    CHECK(q[i + 3] == 0);
  }
}

TEST_CASE("NaN spreads to the columns after it") {
  auto p = normal_vector(30, 7);
  p[4] = not_a_number;  // row 1, column 1
  auto const q = orthonormal<float>(p, 3);
  for (std::size_t i = 0; i < q.size(); i += 3) {
    CHECK(!std::isnan(q[i]));
    CHECK(std::isnan(q[i + 1]));
    CHECK(std::isnan(q[i + 2]));
  }
}
