// tests/transform/hadamard_test.cpp — a rotation keeps lengths, spreads values, and comes back.
#include <pith/pith.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace support;
using pith::hadamard;

namespace {

double energy(std::vector<double> const& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }

/// The output of the stage for one tile of doubles.
std::vector<double> rotated(std::vector<double> const& x, hadamard const& stage, std::uint64_t step = 0) {
  auto const dims = pith::shape{x.size()};
  auto y = std::vector<double>(stage.output_shape(dims).n);
  auto none = pith::workspace<>(pith::span<std::byte>());
  auto const id = pith::encoding_id{&step, 9, 0, 1, 0, 0, 0};
  auto const cx = pith::context<double, pith::seq_executor>{pith::seq, id, dims, none};
  stage.encode(cx, {x.data(), x.size()}, {{y.data(), y.size()}, {}});
  return y;
}

}  // namespace

TEST_CASE("a rotation conforms, by itself and before a quantizer") {
  conforms(hadamard());
  conforms(hadamard(64));
  conforms(hadamard() | pith::qsgd<8>());
  conforms(hadamard(64) | pith::scaled_sign());
}

TEST_CASE("a single value spreads evenly over its tile") {
  auto x = std::vector<double>(64);
  x[17] = 8;
  for (auto const v : rotated(x, hadamard(64))) CHECK(std::abs(v) == 1);
}

TEST_CASE("integers come back exactly and keep their energy") {
  auto x = std::vector<double>(1024);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i * 37 % 101) - 50;
  CHECK(energy(rotated(x, hadamard())) == energy(x));
  CHECK(decoded(hadamard(), x) == x);
}

TEST_CASE("the last tile is filled up with zeros") {
  CHECK(hadamard(64).output_shape({65}) == pith::shape{128});
  CHECK(hadamard().output_shape({0}) == pith::shape{0});
  CHECK(decoded(hadamard(64), {1, 2, 3}) == std::vector<double>{1, 2, 3});
}

TEST_CASE("signs are drawn again in each step and are the same on all ranks") {
  auto const x = std::vector<double>(64, 1.0);
  CHECK(rotated(x, hadamard(64), 1) == rotated(x, hadamard(64), 1));
  CHECK(rotated(x, hadamard(64), 1) != rotated(x, hadamard(64), 2));
}

TEST_CASE("a rotation reduces the quantization error of a tensor with few large values") {
  auto x = narrow<double>(normal_vector(4096, 5));
  for (std::size_t i = 0; i < x.size(); i += 64) x[i] *= 100;
  auto const loss = [&](auto const& codec) {
    auto const y = decoded(codec, x);
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += (y[i] - x[i]) * (y[i] - x[i]);
    return sum;
  };
  CHECK(loss(hadamard() | pith::scaled_sign(256)) < loss(pith::scaled_sign(256)));
}

TEST_CASE("a tile that is no power of four is refused") {
  CHECK_THROWS_WITH_AS(hadamard(128), doctest::Contains("tile must be 64 or 256, got 128"), std::invalid_argument);
}
