// tests/sparsify/redsync_mean_test.cpp — the largest entries of a sign, by turns, as their indices and one number.
#include <pith/exec/par.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/redsync_mean.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <stdexcept>

#include "support/conform.hpp"
#include "support/executed.hpp"
#include "support/reversed.hpp"

using namespace support;
using pith::redsync_mean;

TEST_CASE("redsync_mean takes any input of any size and type") {
  conforms(redsync_mean(0.1));
  conforms(redsync_mean(1));
  conforms(redsync_mean(1e-9));
  conforms(redsync_mean(0.02), {{8192}, {16384}, {16385}, {40000}});
}

TEST_CASE_TEMPLATE("eight numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, redsync_mean>(redsync_mean(0.25), {8});
  auto const x = of<In>({4, -8, 1, 5, -1, 4.5, -2, -7});
  auto const below = t.compress(x);  // step 1: those of at least 4 below zero are two
  REQUIRE(below.size() == 8 + (sizeof(In) == 8 ? 16 : 12));
  CHECK(below[0] == std::byte{0b00111001});  // 1 and 7 of three bits
  CHECK(std::all_of(below.begin() + 1, below.begin() + 8, [](std::byte b) { return b == std::byte{}; }));
  CHECK(below[8] == std::byte{1});   // byte
  CHECK(below[12] == std::byte{2});  // indices
  CHECK(widen(t.decompress(below)) == std::vector<double>{0, -7.5, 0, 0, 0, 0, 0, -7.5});
  // Above zero three are at least 2.5, and there is room for them.
  CHECK(widen(t.roundtrip(x)) == std::vector<double>{4.5, 0, 0, 4.5, 0, 4.5, 0, 0});
  CHECK(widen(t.roundtrip(x)) == std::vector<double>{0, -7.5, 0, 0, 0, 0, 0, -7.5});
}

TEST_CASE("the k to 2 k - 1 largest elements of one sign are kept and decode to their mean") {
  auto const n = std::size_t{100'000};
  auto const x = widen(narrow<float>(normal_vector(n, 1)));
  auto t = trial<float, redsync_mean>(redsync_mean(0.01), {n});
  for (int step = 1; step <= 4; ++step) {
    auto const y = widen(t.roundtrip(narrow<float>(x)));
    auto const sign = step % 2 == 1 ? -1 : 1;
    double sum = 0, least = infinity, max_left = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (y[i] != 0) sum += x[i], least = std::min(least, sign * x[i]);
      if (y[i] == 0) max_left = std::max(max_left, sign * x[i]);
    }
    CHECK(nonzeros(y) >= 1000);
    CHECK(nonzeros(y) < 2000);
    CHECK(least > max_left);
    CHECK(std::set<double>(y.begin(), y.end()).size() == 2);
    CHECK(*std::max_element(y.begin(), y.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }) ==
          static_cast<float>(sum / static_cast<double>(nonzeros(y))));
  }
}

TEST_CASE("a sign whose largest is less than half of the other's loses its turn") {
  auto t = trial<float, redsync_mean>(redsync_mean(0.25), {4});
  for (int step = 0; step < 3; ++step) CHECK(widen(t.roundtrip(of({3, -1, 0, 0}))) == std::vector<double>{3, 0, 0, 0});
  CHECK(widen(t.roundtrip(of({3, -1.5, 0, 0}))) == std::vector<double>{3, 0, 0, 0});
  CHECK(widen(t.roundtrip(of({3, -1.5, 0, 0}))) == std::vector<double>{0, -1.5, 0, 0});
}

TEST_CASE("a NaN or infinite element makes the mean of the kept entries NaN") {
  for (double const odd : {not_a_number, infinity, -infinity}) {
    auto const y = decoded(redsync_mean(0.5), {1, -2, odd, 4, 0, 0, 0, -3});
    CHECK(std::isnan(y[2]));
    CHECK(std::any_of(y.begin(), y.end(), [](double v) { return std::isnan(v); }));
    CHECK(std::all_of(y.begin(), y.end(), [](double v) { return std::isnan(v) || v == 0; }));
  }
}

TEST_CASE("blocks in another order and on threads give the same bytes") {
  auto pool = pith::thread_pool(3);
  for (std::uint64_t const n : {0u, 5u, 20'000u, 150'000u}) {
    auto const expected = executed<float>(pith::seq, redsync_mean(0.01), {n});
    CHECK(executed<float>(reversed(), redsync_mean(0.01), {n}) == expected);
    CHECK(executed<float>(pith::par(pool), redsync_mean(0.01), {n}) == expected);
  }
}

TEST_CASE("room in the shape is of bytes") {
  auto const x = narrow<float>(normal_vector(1000, 5));
  for (std::uint64_t const room : {0u, 1u, 2u, 40u, 300u}) {
    auto const dims = pith::shape{1000, 1, room};
    auto t = trial<float, redsync_mean>(redsync_mean(0.1), dims);
    CAPTURE(room);
    CHECK(redsync_mean(0.1).output_shape(dims).n <= room);
    CHECK(nonzeros(widen(t.roundtrip(x))) <= room * 8 / 10);
    CHECK(redsync_mean(0.1).delta(dims) >= 0);
  }
  CHECK(redsync_mean(0.1).entries({1000, 1, 40}) == 32);
  CHECK(redsync_mean(0.1).entries({1000}) == 199);
}

TEST_CASE("numbers of entries that no encoder writes do no harm") {
  auto t = trial<float, redsync_mean>(redsync_mean(0.25), {16});
  auto payload = t.compress(narrow<float>(normal_vector(16, 6)));
  for (std::uint32_t const count : {7u, 8u, 16u, 0xffffffffu}) {
    std::memcpy(payload.data() + 12, &count, 4);  // after 4 bytes of indices, 4 of padding, and the bytes
    CHECK(nonzeros(widen(t.decompress(payload))) <= 7);
  }
}

TEST_CASE("the decoded values of redsync_mean with feedback average over many steps to the gradient") {
  auto const n = std::size_t{400};
  auto t = trial<float, pith::error_feedback<redsync_mean>>(pith::error_feedback(redsync_mean(0.05)), {n});
  auto const g = normal_vector(n, 7);
  auto sum = std::vector<double>(n);
  int const steps = 400;
  for (int step = 0; step < steps; ++step) {
    auto const sent = widen(t.roundtrip(narrow<float>(g)));
    for (std::size_t i = 0; i < n; ++i) sum[i] += sent[i] / steps;
  }
  CHECK(square(minus(sum, g)) < 0.05 * square(g));
}

TEST_CASE("name() states the density, delta() follows from it, and invalid arguments and sizes are refused") {
  CHECK(redsync_mean(0.01).name() == "redsync_mean(0.01)");
  CHECK(redsync_mean(0.01).at(0.5).name() == "redsync_mean(0.5)");
  CHECK(redsync_mean(0.25).delta({8}) == 1.0 / (4 * 8 * 3));
  CHECK(redsync_mean(0.25).delta({0}) == 1);
  CHECK(pith::payload_bytes<float>(redsync_mean(0.1), {0xffffffff}) < 0xffffffff);
  CHECK_THROWS_WITH_AS(pith::payload_bytes<float>(redsync_mean(0.25), {0xffffffff}),
                       "pith::redsync_mean: indices must have at most 2^32 - 1 bytes, got 8589934580: split the tensor",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(redsync_mean(0), "pith::redsync_mean: density must be in (0, 1], got 0", std::invalid_argument);
}
