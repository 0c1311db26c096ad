// tests/quantize/mx_test.cpp — the microscaling formats, against the tables of the standard.
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/mx.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/conform.hpp"
#include "support/small_floats.hpp"

using namespace support;
using pith::fp6_format, pith::fp8_format, pith::mx_scale, pith::mxfp4, pith::mxfp6, pith::mxfp8, pith::mxint8;

namespace {

small_format e2m1() { return float_format(4, 1, 0); }
small_format e2m3() { return float_format(4, 3, 0); }
small_format e3m2() { return float_format(8, 2, -2); }
small_format e4m3() { return float_format(16, 3, -6, 1); }  // the last code is NaN
small_format e5m2() { return float_format(31, 2, -14); }    // the last field is infinity and NaN
small_format int8() {
  auto all = std::vector<double>();
  for (int i = 0; i <= 127; ++i) all.push_back(i / 64.0);
  return {6, 0, all};
}

/// The exponent of a block's scale.
int exponent_of(double largest, small_format const& f, mx_scale choice) {
  auto const power = std::ilogb(largest);
  auto const carried = std::floor(std::ldexp(largest, f.mantissa - power) + 0.5);
  switch (choice) {
    case mx_scale::floor: return power - f.max_exponent;
    case mx_scale::even: return (carried == std::ldexp(2, f.mantissa) ? power + 1 : power) - f.max_exponent;
    case mx_scale::ceil: return (std::ldexp(1, power) == largest ? power : power + 1) - f.max_exponent;
    case mx_scale::rceil: break;
  }
  int e = -200;
  while (std::ldexp(f.numbers.back(), e) < largest) ++e;
  return e;
}

std::vector<double> by_hand(std::vector<double> const& x, small_format const& f, mx_scale choice) {
  auto y = std::vector<double>();
  for (auto rest = std::span(x); !rest.empty(); rest = rest.subspan(std::min<std::size_t>(32, rest.size()))) {
    auto const block = rest.first(std::min<std::size_t>(32, rest.size()));
    double largest = 0;
    for (auto const v : block) largest = std::max(largest, std::abs(v));
    auto const e = largest == 0 ? 0 : exponent_of(largest, f, choice);
    for (auto const v : block)
      y.push_back(std::copysign(std::ldexp(nearest(std::ldexp(std::abs(v), -e), f.numbers), e), v));
  }
  return y;
}

constexpr mx_scale choices[] = {mx_scale::floor, mx_scale::even, mx_scale::ceil, mx_scale::rceil};

/// Calls f(codec, format, choice) for each format and each choice of the scale.
template <class F>
void with_formats(F const& f) {
  for (auto const choice : choices) {
    f(mxfp4(choice), e2m1(), choice);
    f(mxfp6(fp6_format::e2m3, choice), e2m3(), choice);
    f(mxfp6(fp6_format::e3m2, choice), e3m2(), choice);
    f(mxfp8(fp8_format::e4m3, choice), e4m3(), choice);
    f(mxfp8(fp8_format::e5m2, choice), e5m2(), choice);
    f(mxint8(choice), int8(), choice);
  }
}

template <class C>
std::vector<unsigned> mx_payload(C const& codec, std::vector<double> const& x) {
  auto t = trial<float, C>(codec, {x.size()});
  auto bytes = std::vector<unsigned>();
  for (auto const b : t.compress(narrow<float>(x))) bytes.push_back(std::to_integer<unsigned>(b));
  return bytes;
}

double mx_error(auto const& codec, std::vector<double> const& x) {
  return square(minus(x, decoded(codec, x))) / square(x);
}

/// The example of the tests by hand. The values take 4 bytes with mxfp4, and are padded to 8.
std::vector<double> mx_example() { return {1, -2.5, 7, 0.3, -0.1, 0, 3.5, -7.5}; }

}  // namespace

TEST_CASE("a microscaling format takes any input of any size and type") {
  conforms(mxfp4());
  conforms(mxfp6(fp6_format::e3m2));
  conforms(mxfp8());
  conforms(mxfp8(fp8_format::e5m2, mx_scale::floor));
  conforms(mxint8());
}

TEST_CASE("mxfp4 encodes eight numbers as the standard does") {
  // Scale 1, codes 1, -2, saturated 6, 0.5, 0, 0, 4 (tie to even) and -6.
  CHECK(mx_payload(mxfp4(mx_scale::floor), mx_example()) ==
        std::vector<unsigned>{0xc2, 0x17, 0, 0xf6, 0, 0, 0, 0, 127});
  CHECK(decoded(mxfp4(mx_scale::floor), mx_example()) == std::vector<double>{1, -2, 6, 0.5, 0, 0, 4, -6});
  for (auto const choice : {mx_scale::even, mx_scale::rceil}) {
    CHECK(mx_payload(mxfp4(choice), mx_example()) == std::vector<unsigned>{0xa1, 0x06, 0, 0xe4, 0, 0, 0, 0, 128});
    CHECK(decoded(mxfp4(choice), mx_example()) == std::vector<double>{1, -2, 8, 0, 0, 0, 4, -8});
  }
}

TEST_CASE("mxfp8 and mxint8 encode eight numbers as the standard does") {
  CHECK(decoded(mxfp8(fp8_format::e4m3, mx_scale::floor), mx_example()) ==
        std::vector<double>{1, -2.5, 7, 20.0 / 64, -6.5 / 64, 0, 3.5, -7});
  CHECK(decoded(mxfp8(), mx_example()) == std::vector<double>{1, -2.5, 7, 0.3125, -0.1015625, 0, 3.5, -7.5});
  CHECK(mx_payload(mxfp8(), mx_example()).back() == 127 - 5);
  CHECK(mx_payload(mxint8(), mx_example()) ==
        std::vector<unsigned>{16, 256 - 40, 112, 5, 256 - 2, 0, 56, 256 - 120, 127 + 2});
}

TEST_CASE("each element goes to the nearest number of the format, ties to even codes, for each choice of the scale") {
  with_formats([](auto const& codec, small_format const& f, mx_scale choice) {
    CAPTURE(codec.name());
    for (std::size_t const n : {1u, 31u, 32u, 33u, 4097u}) {
      auto x = widen(narrow<float>(normal_vector(n, n)));
      for (std::size_t i = 0; i < n; ++i)
        x[i] = std::ldexp(x[i], static_cast<int>(i / 32 % 9) - static_cast<int>(i % 7));
      CHECK(decoded(codec, x) == by_hand(x, f, choice));
    }
  });
}

TEST_CASE("each number of a format decodes to itself, and the midpoint of two goes to the even code") {
  with_formats([](auto const& codec, small_format const& f, mx_scale choice) {
    if (choice == mx_scale::ceil) return;  // the largest number would have a larger scale
    CAPTURE(codec.name());
    auto const top = f.numbers.back();
    for (std::size_t i = 0; i + 1 < f.numbers.size(); ++i) {
      auto const own = f.numbers[i], next = f.numbers[i + 1];
      auto const y = decoded(codec, {top, own, -own, (own + next) / 2});
      CHECK(y == std::vector<double>{top, own, -own, i % 2 == 0 ? own : next});
    }
  });
}

TEST_CASE("a payload has 4.25, 6.25 and 8.25 bits per element") {
  CHECK(mx_payload(mxfp4(), std::vector<double>(128)).size() == 68);
  CHECK(mx_payload(mxfp6(), std::vector<double>(128)).size() == 100);
  CHECK(mx_payload(mxfp8(), std::vector<double>(128)).size() == 132);
  CHECK(mx_payload(mxint8(), std::vector<double>(128)).size() == 132);
}

TEST_CASE("NaN and infinity spoil their own block, whose codes are 0 and whose scale is the byte 255") {
  with_formats([](auto const& codec, small_format const&, mx_scale) {
    CAPTURE(codec.name());
    for (auto const bad : {not_a_number, infinity, -infinity}) {
      auto x = std::vector<double>(64, 1.0);
      x[3] = bad;
      auto const y = decoded(codec, x);
      CHECK(std::all_of(y.begin(), y.begin() + 32, [](double v) { return std::isnan(v); }));
      CHECK(std::all_of(y.begin() + 32, y.end(), [](double v) { return v == 1; }));
      auto const payload = mx_payload(codec, x);
      auto const codes = payload.begin() + static_cast<std::ptrdiff_t>((payload.size() - 2) / 2);
      CHECK(std::all_of(payload.begin(), codes, [](unsigned byte) { return byte == 0; }));
      CHECK(payload[payload.size() - 2] == 255);
    }
  });
}

TEST_CASE("a block of zeros has the byte 0, and no zero has a sign") {
  with_formats([](auto const& codec, small_format const&, mx_scale) {
    CAPTURE(codec.name());
    auto const zeros = mx_payload(codec, std::vector<double>(32, -0.0));
    CHECK(std::all_of(zeros.begin(), zeros.end(), [](unsigned byte) { return byte == 0; }));
    CHECK(!std::signbit(decoded(codec, {1, -1e-30})[1]));
  });
}

TEST_CASE("codes of NaN decode to NaN") {
  auto const decode = [](auto const& codec, unsigned symbol) {
    auto t = trial<float, std::remove_cvref_t<decltype(codec)>>(codec, {1});
    auto payload = t.compress({1});
    payload[0] = std::byte(symbol);
    return t.decompress(payload)[0];
  };
  for (auto const symbol : {0x7fu, 0xffu}) CHECK(std::isnan(decode(mxfp8(), symbol)));
  for (auto const symbol : {0x7cu, 0x7du, 0x7fu, 0xfcu}) CHECK(std::isnan(decode(mxfp8(fp8_format::e5m2), symbol)));
}

TEST_CASE("the largest floats saturate, and do not decode to infinity") {
  constexpr auto largest = 0x1.fffffep127;
  with_formats([](auto const& codec, small_format const& f, mx_scale) {
    CAPTURE(codec.name());
    auto const top = std::ldexp(f.numbers.back(), 127 - f.max_exponent);
    CHECK(decoded(codec, {largest, -largest, 0x1p126}) == std::vector<double>{top, -top, 0x1p126});
  });
}

TEST_CASE("floats whose scale would be below the least scale become multiples of the least number") {
  with_formats([](auto const& codec, small_format const& f, mx_scale) {
    CAPTURE(codec.name());
    auto const least = std::ldexp(f.numbers[1], -127);
    for (auto const own : {0x1p-127, 0x1p-130, 0x1p-149}) {
      auto const y = decoded(codec, {own, 0});
      CHECK(y[0] == std::ldexp(nearest(std::ldexp(own, 127), f.numbers), -127));
      CHECK(std::fmod(y[0], least) == 0);
    }
  });
}

TEST_CASE("the least and the largest scales keep doubles in their range, and larger scales are NaN") {
  auto t = trial<double, mxfp4>(mxfp4(), {2});
  auto const tiny = std::vector<double>{6 * 0x1p-127, -0x1p-128}, large = std::vector<double>{4 * 0x1p127, -0x1p126};
  CHECK(t.roundtrip(tiny) == tiny);
  CHECK(t.roundtrip(large) == large);
  for (auto const v : t.roundtrip(std::vector<double>{0x1p130, 1})) CHECK(std::isnan(v));
  CHECK(t.roundtrip(std::vector<double>{0x1p-200, 1e-300}) == std::vector<double>{0, 0});
}

TEST_CASE("delta bounds the error of every largest element beside others of half the least number") {
  with_formats([](auto const& codec, small_format const& f, mx_scale choice) {
    CAPTURE(codec.name());
    double most = 0;
    for (int i = 0; i < 8192; ++i) {  // two binades
      auto x = std::vector<double>(32, f.numbers[1] / 2);
      x[0] = std::ldexp(1 + i / 4096.0, f.max_exponent - 1);
      most = std::max(most, square(minus(x, by_hand(x, f, choice))) / square(x));
      if (i % 64 == 0) CHECK(decoded(codec, x) == by_hand(x, f, choice));
    }
    CHECK(most <= 1 - codec.delta({32}));
    // delta joins the least largest element with the largest error, which no element of the few numbers of E2M1 has.
    CHECK(most >= (f.numbers.size() == 8 ? 0.65 : 0.8) * (1 - codec.delta({32})));
    CHECK(codec.delta({0}) == 1);
    CHECK(codec.delta({1}) >= codec.delta({32}));
  });
}

TEST_CASE("squared errors of normal values are within 5 percent of those of an independent program") {
  auto const x = widen(narrow<float>(normal_vector(1 << 16, 3)));
  auto const is_near = [&](auto const& codec, double expected) {
    CAPTURE(codec.name());
    CHECK(std::abs(mx_error(codec, x) / expected - 1) <= 0.05);
  };
  is_near(mxfp4(mx_scale::floor), 0.0135);
  is_near(mxfp4(mx_scale::rceil), 0.0136);
  is_near(mxfp4(), 0.0127);
  is_near(mxfp6(), 8.0e-4);
  is_near(mxfp6(fp6_format::e3m2), 0.0028);
  is_near(mxfp8(fp8_format::e4m3, mx_scale::floor), 8.8e-4);
  is_near(mxfp8(), 7.0e-4);
  is_near(mxfp8(fp8_format::e5m2), 0.0028);
  is_near(mxint8(), 6.8e-5);
}

TEST_CASE("names of microscaling formats are those of texts") {
  CHECK(mxfp4().name() == "mxfp4");
  CHECK(mxfp4(mx_scale::floor).name() == "mxfp4(floor)");
  CHECK(mxint8(mx_scale::ceil).name() == "mxint8(ceil)");
  CHECK(mxfp6().name() == "mxfp6");
  CHECK(mxfp6(fp6_format::e3m2).name() == "mxfp6(e3m2)");
  CHECK(mxfp6(fp6_format::e2m3, mx_scale::rceil).name() == "mxfp6(e2m3,rceil)");
  CHECK(mxfp8().name() == "mxfp8");
  CHECK(mxfp8(fp8_format::e5m2).name() == "mxfp8(e5m2)");
  CHECK(mxfp8(fp8_format::e4m3, mx_scale::even).name() == "mxfp8(e4m3,even)");
}
