// tests/core/large_test.cpp — tensors of more than 2^24 elements: GRACE draws and scales indices in float,
// which cannot represent the last ones exactly.
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <set>
#include <vector>

#include "support/roundtrip.hpp"

using namespace support;

namespace {

constexpr std::size_t two_to_24 = std::size_t{1} << 24, n = two_to_24 + 3;

/// Uniform in (-1, 1) and never 0, but for the last three: 2, -3 and 4.
std::vector<float> const& gradient() {
  static auto const made = [] {
    auto random = std::mt19937(24);
    auto x = std::vector<float>(n);
    for (auto& v : x) v = (static_cast<float>(random() >> 9) + 0.5f) * 0x1p-22f - 1;
    x[two_to_24] = 2, x[two_to_24 + 1] = -3, x[two_to_24 + 2] = 4;
    return x;
  }();
  return made;
}

/// How many elements are kept, each in its place; n + 1 if one is anything but itself or zero.
std::size_t kept(std::vector<float> const& y) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (y[i] != 0 && y[i] != gradient()[i]) return n + 1;
    count += y[i] != 0;
  }
  return count;
}

/// Which of the last three are kept, a bit each.
unsigned last_three(std::vector<float> const& y) {
  return (y[two_to_24] != 0 ? 1u : 0u) | (y[two_to_24 + 1] != 0 ? 2u : 0u) | (y[two_to_24 + 2] != 0 ? 4u : 0u);
}

}  // namespace

TEST_CASE("regression against the reference: indices above 2^24 are exact, and the odd ones are kept too") {
  auto const largest = trial<float, pith::top_k<>>(pith::top_k(2e-7), {n}).roundtrip(gradient());
  CHECK(kept(largest) == 3);
  CHECK(last_three(largest) == 0b111);
  auto const reaching = trial<float, pith::threshold<>>(pith::threshold(2.5, 0.001), {n}).roundtrip(gradient());
  CHECK(kept(reaching) == 2);
  CHECK(last_three(reaching) == 0b110);
}

TEST_CASE("regression against the reference: each of the last indices above 2^24 is drawn at times") {
  auto t = trial<float, pith::random_k<>>(pith::random_k(1.0 / 3), {n});  // the last stratum: these and the one before
  auto seen = std::set<unsigned>();
  for (int step = 0; step < 20 && seen.size() < 3; ++step) {
    auto const y = t.roundtrip(gradient());
    REQUIRE(kept(y) == n / 3);
    if (last_three(y) != 0) seen.insert(last_three(y));
  }
  CHECK(seen == std::set<unsigned>{0b001, 0b010, 0b100});
}

TEST_CASE("regression against the reference: quantizers of more than 2^24 elements meet each in its place") {
  auto const signs = trial<float, pith::sign>(pith::sign(), {n}).roundtrip(gradient());
  auto const levels = trial<float, pith::qsgd<8>>(pith::qsgd<8>(127, 128, pith::norm::max), {n}).roundtrip(gradient());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const x = gradient()[i];
    auto const unit = (i < two_to_24 ? 1 : 4) / 126.0f;  // the largest of a bucket over 127 levels, rounded up
    wrong += signs[i] != std::copysign(1.0f, x);
    wrong += std::abs(levels[i] - x) > unit;
  }
  CHECK(wrong == 0);
}
