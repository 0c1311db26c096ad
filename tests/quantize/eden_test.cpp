// tests/quantize/eden_test.cpp — the nearest points of a normal distribution's best quantizer, against naive code.
#include <pith/codec/chain.hpp>
#include <pith/quantize/eden.hpp>
#include <pith/transform/hadamard.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/conform.hpp"
#include "support/normal_quantizer.hpp"

using namespace support;
using pith::eden, pith::hadamard, pith::scaling;

namespace {

/// Calls f with 1 to 8 as constants.
template <class F>
void for_each_width(F const& f) {
  [&]<int... B>(std::integer_sequence<int, B...>) { (f(std::integral_constant<int, B + 1>()), ...); }
  (std::make_integer_sequence<int, 8>());
}

std::size_t nearest_index(std::vector<double> const& points, double size) {
  auto const nearer = [&](double a, double b) { return std::abs(a - size) < std::abs(b - size); };
  return static_cast<std::size_t>(std::min_element(points.begin(), points.end(), nearer) - points.begin());
}

std::vector<double> encoded_by_hand(unsigned bits, std::size_t bucket, float gain, std::vector<double> const& x) {
  auto const points = normal_quantizer(bits).points;
  auto y = std::vector<double>();
  for (std::size_t first = 0; first < x.size(); first += bucket) {
    auto const end = std::min(first + bucket, x.size());
    double sum = 0;
    for (auto i = first; i < end; ++i) sum += x[i] * x[i];
    auto const exact = std::sqrt(sum) / std::sqrt(static_cast<double>(end - first)) * gain;
    auto scale = static_cast<float>(exact);
    if (scale < exact) scale = std::nextafter(scale, INFINITY);
    for (auto i = first; i < end; ++i) {
      auto const size = std::abs(static_cast<float>(x[i])) / (scale / gain);
      auto const point = static_cast<float>(points[nearest_index(points, size)]);
      y.push_back(static_cast<float>(std::copysign(static_cast<double>(point) * scale, x[i])));
    }
  }
  return y;
}

/// E[f(z)] for an element z of a uniformly distributed vector of d elements and length sqrt(d), by the midpoint rule.
template <class F>
double mean_on_sphere(double d, F const& f) {
  constexpr int steps = 200'000;
  auto const most = std::min(std::sqrt(d), 12.0);
  double sum = 0, weights = 0;
  for (int i = 0; i < steps; ++i) {
    auto const z = most * (i + 0.5) / steps, weight = std::pow(1 - z * z / d, (d - 3) / 2);
    sum += weight * f(z);
    weights += weight;
  }
  return sum / weights;
}

/// Returns a function that returns the point of z.
auto point_of(normal_quantizer const& q) {
  return [&q](double z) {
    auto const border = std::upper_bound(q.borders.begin(), q.borders.end(), z);
    return q.points[static_cast<std::size_t>(border - q.borders.begin()) - 1];
  };
}

/// The mean over `steps` steps of the decoded values of x.
template <class C>
std::vector<double> mean_over_steps(C const& codec, std::vector<double> const& x, int steps) {
  auto t = trial<float, C>(codec, {x.size()});
  auto mean = std::vector<double>(x.size());
  for (int s = 0; s < steps; ++s) {
    auto const y = widen(t.roundtrip(narrow<float>(x)));
    for (std::size_t i = 0; i < x.size(); ++i) mean[i] += y[i] / steps;
  }
  return mean;
}

double eden_error(auto const& codec, std::vector<double> const& x) {
  return square(minus(x, decoded(codec, x))) / square(x);
}

}  // namespace

TEST_CASE("eden takes any input of any size and type") {
  conforms(eden<1>(), 256);
  conforms(eden<4>(64, pith::options::unbiased), 64);
  conforms(eden<8>(0));
  conforms(hadamard() | eden<2>(), 256);
}

TEST_CASE("the points are those of the quantizer with the least squared error") {
  for_each_width([](auto bits) {
    CAPTURE(bits());
    auto const expected = normal_quantizer(bits()).points;
    auto const found = pith::detail::make_normal_points<bits()>();
    REQUIRE(expected.size() == found.count);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(found.at[i] == static_cast<float>(expected[i]));
  });
}

TEST_CASE("eden rounds each element to the nearest point of its bucket") {
  for_each_width([](auto bits) {
    for (std::size_t const n : {1u, 255u, 256u, 257u, 5000u}) {
      CAPTURE(bits());
      CAPTURE(n);
      auto x = widen(narrow<float>(normal_vector(n, n)));
      for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], static_cast<int>(i / 256 % 5) * 9 - 20);
      CHECK(decoded(eden<bits()>(), x) == encoded_by_hand(bits(), 256, 1, x));
      auto const unbiased = eden<bits()>(64, scaling::unbiased);
      CHECK(decoded(unbiased, x) == encoded_by_hand(bits(), 64, unbiased.rule().gain, x));
    }
  });
}

TEST_CASE("eden encodes eight rotated elements by hand") {
  auto const z =
      std::vector<double>{0, -1.2374369, -0.7071068, -0.8838835, 2.4748737, 0.8838835, 2.4748737, -0.1767767};
  auto const y = decoded(eden<2>(0), z);
  auto const rms = std::sqrt(15.875 / 8), low = 0.45278 * rms, high = 1.5104176 * rms;
  auto const expected = std::vector<double>{low, -low, -low, -low, high, low, high, -low};
  for (std::size_t i = 0; i < 8; ++i) CHECK(std::abs(y[i] - expected[i]) <= 1e-6 * high);
  for (auto const v : decoded(eden<1>(0, scaling::unbiased), z))
    CHECK(std::abs(v) == doctest::Approx(2.2127469 * 0.7978846).epsilon(1e-6));
}

TEST_CASE("the unbiased gain is the one of a uniformly random rotation") {
  for_each_width([](auto bits) {
    auto const q = normal_quantizer(bits());
    auto const point = point_of(q);
    for (double const d : {64.0, 256.0, 4096.0}) {
      CAPTURE(bits());
      CAPTURE(d);
      auto const exact = 1 / mean_on_sphere(d, [&](double z) { return z * point(z); });
      auto const gain = pith::detail::eden_rule<bits()>::unbiased_gain(static_cast<std::uint64_t>(d));
      CHECK(std::abs(gain - exact) <= 1e-4);
    }
  });
}

TEST_CASE("the squared error after a rotation is that of a uniformly random rotation") {
  constexpr std::size_t tile = 256, tiles = 1000;
  auto const x = normal_vector(tiles * tile, 11);
  for_each_width([&](auto bits) {
    CAPTURE(bits());
    auto const q = normal_quantizer(bits());
    auto const point = point_of(q);
    for (auto const how : {scaling::none, scaling::unbiased}) {
      auto const codec = eden<bits()>(tile, how);
      double const gain = codec.rule().gain;
      auto const expected = mean_on_sphere(tile, [&](double z) { return std::pow(z - gain * point(z), 2); });
      auto const y = decoded(hadamard(tile) | codec, x);
      double sum = 0, squares = 0;
      for (std::size_t t = 0; t < tiles; ++t) {
        auto const in = [&](auto const& v) {
          auto const first = v.begin() + static_cast<std::ptrdiff_t>(t * tile);
          return std::vector<double>(first, first + tile);
        };
        auto const error = square(minus(in(x), in(y))) / square(in(x));
        sum += error / tiles, squares += error * error / tiles;
      }
      auto const deviation = std::sqrt((squares - sum * sum) / tiles);
      CHECK(std::abs(sum - expected) <= 5 * deviation);
    }
  });
}

TEST_CASE("one rotation leaves the bias of a tile with two values, and two rotations reduce it") {
  constexpr int steps = 4000;
  auto x = std::vector<double>(256);
  x[0] = 1, x[1] = 0.9;
  auto const length = std::sqrt(square(x));
  auto const codec = eden<1>(256, scaling::unbiased);
  auto const once = mean_over_steps(hadamard() | codec, x, steps);
  auto const twice = mean_over_steps(hadamard() | hadamard() | codec, x, steps);
  // Each step's error has the length sqrt(omega) |x|, so the mean's is sqrt(omega / steps) |x| in expectation.
  auto const noise = 3 * std::sqrt(codec.rule().gain - 1.0) * length / std::sqrt(steps);
  // One rotation: every sign is that of the larger element, so the result is (1 + 0.81, 0) times a constant.
  CHECK(std::abs(once[1]) <= noise);
  CHECK(std::sqrt(square(minus(once, x))) >= 0.8 * length);
  CHECK(std::sqrt(square(minus(twice, x))) <= 0.02 * length + noise);
}

TEST_CASE("the worst bucket loses as much as delta says") {
  for_each_width([](auto bits) {
    CAPTURE(bits());
    for (auto const how : {scaling::none, scaling::unbiased}) {
      auto const codec = eden<bits()>(256, how);
      double most = 0;
      for (std::size_t large = 1; large <= 256; ++large) {
        auto x = std::vector<double>(256);
        std::fill_n(x.begin(), large, 1.0);
        most = std::max(most, eden_error(codec, x));
      }
      CHECK(most <= (1 - codec.delta({256})) * (1 + 1e-5));
      CHECK(most >= (1 - codec.delta({256})) * 0.95);
    }
  });
  CHECK(eden<4>().delta({0}) == 1);
  // In a bucket of n elements, the largest is at most sqrt(n) times the root of the mean square. The largest points
  // of eden<8> are 3.93 and 4.19.
  for (std::uint64_t n = 1; n <= 16; ++n) CHECK(eden<8>().delta({n}) > 0.999);
  for (std::uint64_t const n : {1u, 3u, 4u}) CHECK(eden<4>().delta({n}) > 0.97);
  CHECK(eden<2>().delta({1000}) < 0);
}

TEST_CASE("NaN and infinity spoil their own bucket, and a bucket of zeros stays zero") {
  for (auto const bad : {not_a_number, infinity, -infinity}) {
    auto x = std::vector<double>(24, 0.5);
    x[11] = bad;
    std::fill_n(x.begin() + 16, 8, -0.0);
    auto const y = decoded(eden<3>(8), x);
    for (std::size_t i = 0; i < 24; ++i) CHECK(std::isnan(y[i]) == (i / 8 == 1));
    CHECK(std::all_of(y.begin() + 16, y.end(), [](double v) { return v == 0; }));
  }
}

TEST_CASE("names of eden are those of texts, and a wrong bucket is refused") {
  CHECK(eden<4>().name() == "eden<4>");
  CHECK(eden<4>(64, pith::options::none).name() == "eden<4>(64)");
  CHECK(eden<1>(256, pith::options::unbiased).name() == "eden<1>(256,unbiased)");
  CHECK_THROWS_WITH_AS(eden<4>(12),
                       doctest::Contains("eden: bucket must be 0 (whole tensor) or a multiple of 8, got 12"),
                       std::invalid_argument);
}
