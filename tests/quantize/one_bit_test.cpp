// tests/quantize/one_bit_test.cpp — two means per tensor, bucket, row or column.
#include <pith/quantize/one_bit.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

#include "support/conform.hpp"

using namespace support;
using pith::axis;
using pith::one_bit;
using by_row = pith::one_bit<axis::row>;
using by_column = pith::one_bit<axis::column>;

namespace {

/// The group of element i of a matrix: the element's tensor, row or column.
std::uint64_t group_of(axis of, pith::shape dims, std::uint64_t i) {
  return of == axis::tensor ? 0 : of == axis::row ? i / dims.columns() : i % dims.columns();
}

/// Means by the definition, in double and in any order.
std::vector<double> oracle(axis of, pith::shape dims, std::vector<double> const& x) {
  auto const groups = std::max<std::uint64_t>(1, std::max(dims.rows, dims.columns()));
  auto sum = std::vector<double>(2 * groups), count = sum, y = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const at = 2 * group_of(of, dims, i) + (x[i] < 0 ? 1 : 0);
    sum[at] += x[i], count[at] += 1;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const at = 2 * group_of(of, dims, i) + (x[i] < 0 ? 1 : 0);
    y[i] = sum[at] / count[at];
  }
  return y;
}

/// Ours is a sum in double, as the oracle's, rounded once to float: 2^-24 of it and, of sums of up to n terms of one
/// sign, n 2^-53 each.
template <class C>
void agrees(C const& codec, axis of, pith::shape dims) {
  CAPTURE(codec.name());
  CAPTURE(dims.n);
  CAPTURE(dims.rows);
  auto const x = widen(narrow<float>(normal_vector(dims.n, 71)));
  auto const ours = decoded(codec, dims, x), exact = oracle(of, dims, x);
  auto const bound = 0x1p-24 + 2 * static_cast<double>(dims.n) * 0x1p-53;
  unsigned wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) wrong += !(std::abs(ours[i] - exact[i]) <= bound * std::abs(exact[i]));
  CHECK(wrong == 0);
}

std::vector<pith::shape> const matrices = {{0, 1},         {1, 1},         {6, 2},     {7, 1},      {7, 7},
                                           {15, 5},        {48, 6},        {1000, 10}, {1000, 50},  {513 * 3, 3},
                                           {513 * 3, 513}, {600 * 7, 600}, {1030, 2},  {1030, 515}, {20000 * 2, 2}};

}  // namespace

TEST_CASE("one_bit takes any input of any size and type") {
  conforms(one_bit());
  conforms(one_bit(128));
  conforms(one_bit(8), 8);
}

TEST_CASE("one_bit takes matrices of any form") {
  auto const some = std::vector<pith::shape>{{0, 1}, {1, 1}, {6, 2}, {7, 7}, {15, 5}, {1030, 2}, {514, 257}};
  conforms(by_row(), some);
  conforms(by_column(), some);
}

TEST_CASE_TEMPLATE("five numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  using A = pith::accum<In>;
  auto t = trial<In, one_bit<>>(one_bit(), {5});
  auto const payload = t.compress(of<In>({1, -2, 3, 0, -1}));
  REQUIRE(payload.size() == 8 + 2 * sizeof(A));
  CHECK(payload[0] == std::byte{0b10010});
  A means[2];
  std::memcpy(means, payload.data() + 8, sizeof means);
  CHECK(static_cast<double>(means[1]) == -1.5);
  CHECK(std::abs(static_cast<double>(means[0]) - 4.0 / 3) <= roundoff<A>() * 4 / 3);
}

TEST_CASE("rows and columns by hand") {
  auto const x = std::vector<double>{1,  -2, 3,  //
                                     -4, 6,  5};
  CHECK(decoded(by_row(), {6, 2}, x) == std::vector<double>{2, -2, 2, -4, 5.5, 5.5});
  CHECK(decoded(by_column(), {6, 2}, x) == std::vector<double>{1, -2, 4, -4, 6, 4});
  CHECK(pith::payload_bytes<float>(by_row(), {6, 2}) == 8 + 2 * 8);
  CHECK(pith::payload_bytes<float>(by_column(), {6, 2}) == 8 + 3 * 8);
  CHECK(pith::payload_bytes<double>(by_column(), {6, 2}) == 8 + 3 * 16);
  CHECK(pith::payload_bytes<float>(by_column(), {0}) == 0);
}

TEST_CASE("regression against the reference: non-negative elements decode to their mean, not to 255 times it") {
  // Its distributed decoder negates a byte bit by bit: (382.5, 382.5, 379, 379).
  CHECK(decoded(one_bit(), {1, 2, -3, -1}) == std::vector<double>{1.5, 1.5, -2, -2});
}

TEST_CASE("means are those of the definition") {
  for (auto const& dims : matrices) {
    agrees(one_bit(), axis::tensor, dims);
    agrees(by_row(), axis::row, dims);
    agrees(by_column(), axis::column, dims);
  }
}

TEST_CASE("rows of a multiple of 8 are buckets") {
  auto const dims = pith::shape{40 * 64, 40};
  auto const x = narrow<float>(normal_vector(dims.n, 72));
  CHECK(trial<float, by_row>(by_row(), dims).compress(x) == trial<float, one_bit<>>(one_bit(64), dims).compress(x));
  auto const tall = pith::shape{3 * 20000, 3};
  auto const y = narrow<float>(normal_vector(tall.n, 73));
  CHECK(trial<float, by_row>(by_row(), tall).compress(y) == trial<float, one_bit<>>(one_bit(20000), tall).compress(y));
}

TEST_CASE("a tensor of equal elements decodes exactly") {
  for (double const v : {0.1f, -0.1f, 0.0f, 1e-40f, -3e38f}) {
    auto const x = std::vector<double>(1000, v);
    CHECK(decoded(one_bit(), x) == x);
    CHECK(decoded(one_bit(64), x) == x);
    CHECK(decoded(by_row(), {1000, 8}, x) == x);
    CHECK(decoded(by_column(), {1000, 8}, x) == x);
  }
  CHECK(decoded(one_bit(), {0.7f}) == std::vector<double>{0.7f});
}

TEST_CASE("zero of either sign counts as positive, and the negative elements keep their mean") {
  CHECK(decoded(one_bit(), {0.0, -0.0, 3, -3}) == std::vector<double>{1, 1, 1, -3});
}

TEST_CASE("a bucket, row or column with NaN or infinity decodes to NaN, and the others do not") {
  for (double const bad : {not_a_number, -not_a_number, infinity, -infinity}) {
    auto x = normal_vector(24, 74);
    x[11] = bad;
    auto const buckets = decoded(one_bit(8), x), rows = decoded(by_row(), {24, 4}, x),
               columns = decoded(by_column(), {24, 4}, x);
    for (std::size_t i = 0; i < 24; ++i) {
      CHECK(std::isnan(buckets[i]) == (i / 8 == 1));
      CHECK(std::isnan(rows[i]) == (i / 6 == 1));
      CHECK(std::isnan(columns[i]) == (i % 6 == 5));
    }
    for (auto const v : decoded(one_bit(), x)) CHECK(std::isnan(v));
  }
}

TEST_CASE("an exchange over four ranks with equal gradients yields the decoded payload of one rank") {
  auto const dims = pith::shape{520 * 3, 520};
  auto const check = [&](auto const& codec) {
    using C = std::remove_cvref_t<decltype(codec)>;
    auto t = trial<float, C>(codec, dims);
    auto const x = narrow<float>(normal_vector(dims.n, 75));
    auto const once = widen(t.roundtrip(x));
    // Of four ranks that hold the same, the mean is what one sent: sums of four and their quarter are exact.
    CHECK(widen(trial<float, C>(codec, dims).all_reduce(x, echo_communicator<4>())) == once);
  };
  check(one_bit());
  check(by_row());
  check(by_column());
}

TEST_CASE("a tensor with one nonzero element meets delta") {
  auto spike = std::vector<double>(16);
  spike[3] = 1;
  CHECK(square(minus(decoded(one_bit(), spike), spike)) == 1 - one_bit().delta({16}));
  CHECK(square(minus(decoded(by_row(), {16, 4}, spike), spike)) == 1 - by_row().delta({16, 4}));
  CHECK(square(minus(decoded(by_column(), {16, 8}, spike), spike)) == 1 - by_column().delta({16, 8}));
  CHECK(by_row().delta({0}) == 1);
  CHECK(one_bit(8).delta({3}) == 1.0 / 3);
}

TEST_CASE("rows that do not divide the tensor and buckets that are no multiple of 8 are refused") {
  CHECK_THROWS_WITH_AS(pith::payload_bytes<float>(by_column(), {10, 3}),
                       "pith::one_bit: rows must divide the 10 elements of the tensor, got 3", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::payload_bytes<float>(by_row(), {10, 0}),
                       "pith::one_bit: rows must divide the 10 elements of the tensor, got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(one_bit(12), "pith::one_bit: bucket must be 0 (whole tensor) or a multiple of 8, got 12",
                       std::invalid_argument);
}

TEST_CASE("names") {
  CHECK(one_bit().name() == "one_bit");
  CHECK(one_bit(64).name() == "one_bit(64)");
  CHECK(by_row().name() == "one_bit(row)");
  CHECK(by_column().name() == "one_bit(column)");
}
