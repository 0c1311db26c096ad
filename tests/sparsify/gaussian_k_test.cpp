// tests/sparsify/gaussian_k_test.cpp — tails of normal numbers, and corrections where numbers are not normal.
#include <pith/sparsify/gaussian_k.hpp>

#include <doctest/doctest.h>

#include "support/gradients.hpp"
#include "support/roundtrip.hpp"

using namespace support;
using pith::correction;
using pith::gaussian_k;

namespace {

double ratio(gaussian_k const& codec, std::vector<double> const& x) {
  return static_cast<double>(nonzeros(decoded(codec, x))) / static_cast<double>(codec.kept({x.size()}));
}

}  // namespace

// k is a count of n draws: five standard deviations of it are 5 / sqrt(k). The corrections do not begin within 0.75.
TEST_CASE("gaussian_k keeps about k entries of normally distributed elements") {
  auto const n = std::size_t{500'000};
  auto const x = normal_vector(n, 1);
  for (double const density : {0.3, 0.1, 0.01, 0.001}) {
    for (auto const how : {correction::coarse, correction::fine}) {
      CAPTURE(density);
      auto const k = density * static_cast<double>(n);
      CHECK(std::abs(ratio(gaussian_k(density, how), x) - 1) < 5 / std::sqrt(k));
    }
  }
}

TEST_CASE("a mean moves the threshold") {
  auto x = normal_vector(100'000, 2);
  for (auto& v : x) v = 100 + v;
  x = widen(narrow<float>(x));
  // Beyond 100 + z on one side of 0 only: half as many. A fiftieth less is 100.3, which too many reach, so that it goes
  // back halfway to what was tried before.
  auto const found = ratio(gaussian_k(0.02, correction::fine), x);
  CHECK(found >= 0.5 - 5 / std::sqrt(1000));
  CHECK(found < 2);
}

TEST_CASE("corrections go by half or by a fiftieth") {
  auto random = std::mt19937_64(3);
  auto x = std::vector<double>(500'000);
  for (auto& v : x) v = (random() % 2 == 0 ? 1 : -1) * std::log(uniform(random));
  // Laplace numbers have longer tails: z sqrt(2) is 3.643, beyond which are 2.62 %, more than there is room for. Beyond
  // half as much again are 0.42 %, beyond half of that 6.5 %, and half as much again leaves 1.66 %.
  CHECK(std::abs(ratio(gaussian_k(0.01), x) - 1.66) < 0.1);
  // In steps of 2 % down from 0.42 % the first one in the band leaves 0.75 % to 0.83 %.
  auto const fine = ratio(gaussian_k(0.01, correction::fine), x);
  CHECK(fine >= 0.75);
  CHECK(fine < 0.84);
}

// The ranges are those of docs/composing.md, for matrices with a k of eight or more.
TEST_CASE("recorded gradients have heavier tails: coarse corrections keep less or more than k, fine ones about k") {
  for (auto const* const model : {"lstm", "resnet20"}) {
    auto const all = read_gradients(std::string(PITH_TEST_DATA "/gradients/") + model);
    auto const* at = all.values.data();
    for (auto const& tensor : all.tensors) {
      auto const x = widen(std::vector<float>(at, at + tensor.dims.n));
      at += tensor.dims.n;
      for (double const density : {0.01, 0.001}) {
        if (tensor.dims.rows == 1 || gaussian_k(density).kept(tensor.dims) < 8) continue;
        CAPTURE(tensor.name);
        CAPTURE(density);
        auto const coarse = ratio(gaussian_k(density), x), fine = ratio(gaussian_k(density, correction::fine), x);
        CHECK(coarse >= (density == 0.01 ? 0.56 : 0.19));
        CHECK(coarse <= 1.8);
        CHECK(fine >= 0.75);
        CHECK(fine <= 1.25);
      }
    }
  }
}

TEST_CASE("gaussian_k keeps fewer than 2 k entries, including the largest, if too many pass the final threshold") {
  // Of a uniform distribution nothing is beyond z deviations, and of half the largest more than half.
  auto x = std::vector<double>(10'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i + 1) / 10'000;
  x = widen(narrow<float>(x));
  for (auto const how : {correction::coarse, correction::fine}) {
    auto const y = decoded(gaussian_k(0.001, how), x);
    CHECK(nonzeros(y) <= 19);
    CHECK(y.back() == x.back());
  }
}
