// tests/comparison/adaptive_threshold_test.cpp — where the largest of either sign are, and their means.
#include <pith/codec/compact.hpp>
#include <pith/comparison/adaptive_threshold.hpp>
#include <pith/feedback/error_feedback.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <stdexcept>

#include "laws/laws.hpp"
#include "support/conform.hpp"

using namespace support;
using pith::adaptive_threshold;

namespace {

/// The mean of the largest of a sign at their places, by a sort of all.
void keep_side(std::vector<double> const& x, double sign, double density, std::vector<double>& y) {
  auto side = std::vector<std::size_t>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] * sign > 0) side.push_back(i);
  }
  std::stable_sort(side.begin(), side.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  if (side.empty()) return;
  side.resize(std::max<std::size_t>(1, static_cast<std::size_t>(density * static_cast<double>(side.size()))));
  std::sort(side.begin(), side.end());
  double sum = 0;
  for (auto const i : side) sum += x[i];
  for (auto const i : side) y[i] = static_cast<float>(sum / static_cast<double>(side.size()));
}

std::vector<double> expected(std::vector<double> const& x, double density) {
  auto y = std::vector<double>(x.size());
  keep_side(x, 1, density, y);
  keep_side(x, -1, density, y);
  return y;
}

struct head {
  std::uint32_t count;
  float above, below;
};
head head_of(adaptive_threshold const& codec, std::vector<std::byte> const& payload, std::uint64_t n) {
  auto const values = pith::detail::align_up(pith::value_bytes<pith::packed<1>>(codec.capacity(n)), 8);
  auto read = head();
  std::memcpy(&read, payload.data() + values, sizeof read);
  return read;
}

}  // namespace

TEST_CASE("adaptive_threshold takes any input of any size") {
  for (std::uint64_t const n : {0u, 1u, 2u, 7u, 8u, 9u, 1000u}) {
    conforms_at<float>(adaptive_threshold(0.1), {n});
    conforms_at<float>(adaptive_threshold(1), {n});
  }
}

TEST_CASE("adaptive_threshold contracts as it claims") {
  for (std::uint64_t const n : {1u, 7u, 129u, 1000u}) {
    auto const found = laws::check(adaptive_threshold(0.1), {n}, {.search = n < 100 ? 300u : 0u});
    INFO(found.text());
    CHECK(found.holds());
  }
}

TEST_CASE("the largest of either sign are kept as their mean") {
  for (std::size_t const n : {1u, 2u, 10u, 257u, 20'000u}) {
    auto x = widen(narrow<float>(normal_vector(n, n)));
    for (std::size_t i = 0; i < n; i += 5) x[i] = std::round(x[i]);  // ties and zeros
    for (double const density : {0.001, 0.1, 0.5, 1.0}) {
      CAPTURE(n);
      CAPTURE(density);
      CHECK(decoded(adaptive_threshold(density), x) == expected(x, density));
    }
  }
}

TEST_CASE("seven numbers by hand") {
  auto const codec = adaptive_threshold(0.5);
  auto t = trial<float, adaptive_threshold>(codec, {7});
  auto const payload = t.compress(of({4, -1, 0, 2, -5, 1, -3}));
  CHECK(widen(t.decompress(payload)) == std::vector<double>{4, 0, 0, 0, -5, 0, 0});
  CHECK(decoded(adaptive_threshold(1), {4, -1, 0, 2, -5, 2, -3}) ==
        std::vector<double>{static_cast<float>(8.0 / 3), -3, 0, static_cast<float>(8.0 / 3), -3,
                            static_cast<float>(8.0 / 3), -3});
  CHECK(payload.size() == 8 + 12 + (5 * 3 + 7) / 8);
  CHECK(head_of(codec, payload, 7).count == 2);
  CHECK(payload[0] == std::byte{0b10});
}

// GRACE sends the mean of nothing: NaN.
TEST_CASE("regression against the reference: the mean of an empty side is zero and not NaN") {
  auto const codec = adaptive_threshold(0.5);
  for (double const sign : {1.0, -1.0, 0.0}) {
    auto t = trial<float, adaptive_threshold>(codec, {4});
    auto const payload = t.compress(of({sign, 3 * sign, 0, 2 * sign}));
    auto const read = head_of(codec, payload, 4);
    CHECK(read.count == (sign == 0 ? 0 : 1));
    CHECK(static_cast<double>(read.above) == (sign > 0 ? 3 : 0));
    CHECK(static_cast<double>(read.below) == (sign < 0 ? -3 : 0));
    CHECK(widen(t.decompress(payload)) == std::vector<double>{0, 3 * sign, 0, 0});
  }
}

TEST_CASE("NaN and infinity are kept, and make the mean that they are part of NaN") {
  for (double const bad : {not_a_number, infinity}) {
    auto const y = decoded(adaptive_threshold(0.5), {5, bad, 1, -7, 9, 2});
    CHECK(std::isnan(y[1]));
    CHECK(std::isnan(y[4]));
    CHECK(y[3] == -7);
    CHECK(y[0] == 0);
  }
}

TEST_CASE("a sealed payload has the indices in use and any payload decodes") {
  auto const codec = adaptive_threshold(0.1);
  auto x = std::vector<float>(1000);
  x[3] = 1, x[700] = -2;
  auto t = trial<float, adaptive_threshold>(codec, {1000});
  auto payload = t.compress(x);
  CHECK(pith::used_bytes<float>(pith::seq, codec, {1000}, pith::span<std::byte const>(payload)) ==
        12 + (2 * 10 + 7) / 8 + 1);
  CHECK(t.decompress(payload) == x);
  for (std::uint32_t const count : {103u, 0xffffffffu}) {
    std::memcpy(payload.data() + 16, &count, sizeof count);
    CHECK(t.decompress(payload).size() == 1000);
  }
}

TEST_CASE("the decoded payloads plus the residual equal the sum of all gradients under error feedback") {
  using codec = pith::error_feedback<adaptive_threshold>;
  auto t = trial<float, codec>(codec(adaptive_threshold(0.1)), {200});
  auto& kept = std::get<1>(t.state().local().each).residual;
  auto sent = std::vector<double>(200), all = sent;
  for (std::uint64_t step = 0; step < 20; ++step) {
    auto const g = narrow<float>(normal_vector(200, step));
    auto const y = t.roundtrip(g);
    for (std::size_t i = 0; i < 200; ++i) sent[i] += y[i], all[i] += g[i];
  }
  // Each step rounds a sum and a difference of numbers below 32 once.
  for (std::size_t i = 0; i < 200; ++i) CHECK(std::abs(sent[i] + kept.data()[i] - all[i]) <= 20 * 2 * 32 * 0x1p-24);
}

TEST_CASE("the name of adaptive_threshold states its density, and a density of 0 is refused") {
  CHECK(adaptive_threshold(0.01).name() == "adaptive_threshold(0.01)");
  CHECK(adaptive_threshold(0.01).at(0.5).capacity(10) == 7);
  CHECK(adaptive_threshold(0.01).delta({0}) == 1);
  CHECK_THROWS_WITH_AS(adaptive_threshold(0), "pith::adaptive_threshold: density must be in (0, 1], got 0",
                       std::invalid_argument);
}
