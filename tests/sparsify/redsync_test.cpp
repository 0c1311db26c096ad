// tests/sparsify/redsync_test.cpp — the search for a threshold that k to 2 k - 1 entries reach.
#include <pith/codec/chain.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/redsync.hpp>

#include <doctest/doctest.h>

#include "support/roundtrip.hpp"

using namespace support;
using pith::redsync;

TEST_CASE_TEMPLATE("eight numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  // k is 2. [0, 8] is halved: 4 are at least 4, which are too many; only one is at least 6, two are at least 5.
  CHECK(decoded<In>(redsync(0.25), {4, -8, 1, 5, 0, 4.5, -2, 3}) == std::vector<double>{0, -8, 0, 5, 0, 0, 0, 0});
}

TEST_CASE("redsync keeps from k to 2 k - 1 entries of normal numbers, Laplace numbers and cubes") {
  auto const n = std::size_t{200'000};
  auto cubes = normal_vector(n, 3);
  for (auto& v : cubes) v = v * v * v;
  for (auto const& x : {normal_vector(n, 1), laplace_vector(n, 2), cubes}) {
    for (double const density : {0.5, 0.1, 0.01, 0.001, 0.00001}) {
      CAPTURE(density);
      auto const k = redsync(density).kept({n}), sent = nonzeros(decoded(redsync(density), x));
      CHECK(sent >= k);
      CHECK(sent < 2 * k);
    }
  }
}

TEST_CASE("more than ten halves from the largest it keeps the largest alone") {
  auto x = normal_vector(1000, 4);
  x[500] = 1e5;  // the 20th largest is about 2
  auto const y = decoded(redsync(0.02), x);
  CHECK(nonzeros(y) == 1);
  CHECK(y[500] == 1e5);
}

TEST_CASE("a quantizer follows") {
  auto const y = decoded(redsync(0.25) | pith::scaled_sign(), {8, 1, -6, 0.5, 0, 0, 0, 0});
  CHECK(nonzeros(y) == 2);
  CHECK(y[0] == -y[2]);
}
