// tests/quantize/nvfp4_test.cpp — floats of 4 bits with E4M3 scales, against a naive encoder.
#include <pith/quantize/nvfp4.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "support/conform.hpp"
#include "support/small_floats.hpp"

using namespace support;
using pith::nvfp4;
namespace options = pith::options;

namespace {

std::vector<double> const nvfp4_numbers = float_format(4, 1, 0).numbers;
std::vector<double> const nvfp4_scales = float_format(16, 3, -6, 1).numbers;  // the last code is NaN

double largest_of(std::span<double const> x) {
  double largest = 0;
  for (auto const v : x) largest = std::max(largest, std::abs(v));
  return largest;
}

/// The scale of the tensor: the next number with 16 significant bits.
double tensor_scale(std::vector<double> const& x, double largest_scale) {
  auto const exact = largest_of(x) / (6 * largest_scale);
  if (exact == 0) return 1;
  auto const unit = std::ldexp(1.0, std::ilogb(exact) - 15);
  return std::ceil(exact / unit) * unit;
}

std::vector<double> rounded(std::span<double const> x, double unit) {
  auto y = std::vector<double>();
  for (auto const v : x) {
    auto const size = static_cast<double>(static_cast<float>(std::abs(v)) / static_cast<float>(unit));
    y.push_back(unit == 0 ? 0 : std::copysign(nearest(size, nvfp4_numbers) * unit, v));
  }
  return y;
}
std::vector<double> by_hand(std::vector<double> const& x, bool is_better_of_two) {
  auto y = std::vector<double>();
  auto const t = tensor_scale(x, is_better_of_two ? 256 : 448);
  for (auto rest = std::span(x); !rest.empty(); rest = rest.subspan(std::min<std::size_t>(16, rest.size()))) {
    auto const block = rest.first(std::min<std::size_t>(16, rest.size()));
    auto const own = std::vector<double>(block.begin(), block.end());
    auto const s = nearest(largest_of(block) / (6 * t), nvfp4_scales);
    auto best = rounded(block, s * t);
    auto const other = rounded(block, nearest(1.5 * s, nvfp4_scales) * t);
    if (is_better_of_two && square(minus(own, other)) < square(minus(own, best))) best = other;
    y.insert(y.end(), best.begin(), best.end());
  }
  return y;
}

double nvfp4_error(auto const& codec, std::vector<double> const& x) {
  return square(minus(x, decoded(codec, x))) / square(x);
}

/// Two blocks, whose largest magnitudes are those of the tensor and 1 / 750 of it.
std::vector<double> nvfp4_example() {
  return {0.02,  -0.5,   1,      0.25, -0.125, 0,     0.75,   -3,     0.1,    0.2,   0.3,
          0.4,   -0.4,   -0.3,   -0.2, -0.1,   0.001, -0.002, 0.003,  0,      0.004, -0.0005,
          0.002, -0.001, 0.0015, 0,    0,      0,     0.0025, -0.003, 0.0035, -0.004};
}

}  // namespace

TEST_CASE("nvfp4 takes any input of any size and type") {
  conforms(nvfp4());
  conforms(nvfp4(options::four_or_six));
}

TEST_CASE("nvfp4 encodes two blocks by hand") {
  auto t = trial<float, nvfp4>(nvfp4(), {32});
  auto const payload = t.compress(narrow<float>(nvfp4_example()));
  REQUIRE(payload.size() == 16 + 4 + 2);  // 4.5 bits per element, and the scale of the tensor
  float scale = 0;
  std::memcpy(&scale, payload.data() + 16, sizeof scale);
  CHECK(scale == doctest::Approx(3.0 / 2688).epsilon(0x1p-15));
  CHECK(scale >= 3.0 / 2688);
  CHECK(payload[20] == std::byte{0x7e});  // 448
  CHECK(payload[21] == std::byte{0x32});  // 0.625
  auto const codes = std::vector<double>{0,   -1, 2, 0.5, 0, 0,    1.5, -6,   0, 0.5, 0.5, 1, -1, -0.5, -0.5, 0,
                                         1.5, -3, 4, 0,   6, -0.5, 3,   -1.5, 2, 0,   0,   0, 4,  -4,   6,    -6};
  auto const y = t.decompress(payload);
  for (std::size_t i = 0; i < 32; ++i) CHECK(y[i] == static_cast<float>(codes[i] * (i < 16 ? 448 : 0.625)) * scale);
}

TEST_CASE("nvfp4 rounds each element to the nearest number, ties to even codes") {
  for (std::size_t const n : {1u, 15u, 16u, 17u, 2049u, 40'000u}) {
    CAPTURE(n);
    auto x = widen(narrow<float>(normal_vector(n, n)));
    for (std::size_t i = 0; i < n; ++i) x[i] = std::ldexp(x[i], static_cast<int>(i / 16 % 23) - 20);
    CHECK(decoded(nvfp4(), x) == by_hand(x, false));
  }
}

TEST_CASE("a block with four_or_six takes the better of two scales") {
  for (std::size_t const n : {16u, 48u, 2048u}) {
    auto const x = widen(narrow<float>(normal_vector(n, n)));
    CHECK(decoded(nvfp4(options::four_or_six), x) == by_hand(x, true));
  }
}

TEST_CASE("NaN and infinity spoil their own block, and do not change the scale of the tensor") {
  auto x = widen(narrow<float>(normal_vector(64, 1)));
  auto const whole = decoded(nvfp4(), x);
  REQUIRE(largest_of(x) != std::abs(x[3]));
  for (auto const bad : {not_a_number, infinity, -infinity}) {
    x[3] = bad;
    auto const y = decoded(nvfp4(), x);
    CHECK(std::all_of(y.begin(), y.begin() + 16, [](double v) { return std::isnan(v); }));
    CHECK(std::equal(y.begin() + 16, y.end(), whole.begin() + 16));
  }
  auto const y = decoded(nvfp4(), std::vector<double>(20, infinity));
  CHECK(std::all_of(y.begin(), y.end(), [](double v) { return std::isnan(v); }));
}

TEST_CASE("the largest floats and doubles decode to finite values, with an error of at most 2^-15") {
  auto const check = [](auto largest, auto const& codec) {
    using T = decltype(largest);
    auto t = trial<T, nvfp4>(codec, {2});
    for (auto const v : t.roundtrip({largest, -largest})) {
      CHECK(std::isfinite(v));
      CHECK(std::abs(std::abs(v) / largest - 1) <= T(0x1p-15));
    }
  };
  for (auto const& codec : {nvfp4(), nvfp4(options::four_or_six)}) {
    check(0x1.fffffep127f, codec);
    check(0x1.fffffffffffffp1023, codec);
  }
}

TEST_CASE("nvfp4 keeps zeros, and blocks far below the largest magnitude become zeros") {
  CHECK(decoded(nvfp4(), std::vector<double>(33, -0.0)) == std::vector<double>(33));
  auto x = std::vector<double>(32, 1e-9);
  x[0] = 1;
  auto const y = decoded(nvfp4(), x);
  CHECK(std::all_of(y.begin() + 16, y.end(), [](double v) { return v == 0; }));
}

TEST_CASE("squared errors of nvfp4 on normal values are within 5 percent of those of an independent program") {
  auto const x = widen(narrow<float>(normal_vector(1 << 16, 3)));
  CHECK(std::abs(nvfp4_error(nvfp4(), x) / 0.0091 - 1) <= 0.05);
  CHECK(std::abs(nvfp4_error(nvfp4(options::four_or_six), x) / 0.00759 - 1) <= 0.05);
}

TEST_CASE("delta of nvfp4 bounds the error of every largest element beside others of a quarter unit") {
  for (auto const& codec : {nvfp4(), nvfp4(options::four_or_six)}) {
    double most = 0;
    for (int i = 0; i < 256; ++i) {
      auto x = std::vector<double>(32, 0.25);
      x[16] = 6 * (1 + i / 1024.0);
      x[0] = 2688;  // the scale of the tensor is 1 or 1.75
      auto const y = decoded(codec, x);
      auto const block = std::vector<double>(x.begin() + 16, x.end());
      most = std::max(most, square(minus(block, {y.begin() + 16, y.end()})) / square(block));
    }
    CHECK(most <= 1 - codec.delta({16}));
    CHECK(codec.delta({0}) == 1);
    CHECK(codec.delta({1}) == doctest::Approx(0.96).epsilon(1e-9));
  }
}

TEST_CASE("names of nvfp4 are those of texts") {
  CHECK(nvfp4().name() == "nvfp4");
  CHECK(nvfp4(options::four_or_six).name() == "nvfp4(four_or_six)");
}
