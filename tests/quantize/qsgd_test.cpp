// tests/quantize/qsgd_test.cpp — stochastic rounding to levels of a norm.
#include <pith/quantize/qsgd.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "support/conform.hpp"

using namespace support;
using pith::norm;
using pith::qsgd;

namespace {

template <class A>
A unit_of(std::vector<std::byte> const& payload, std::size_t values, std::size_t bucket) {
  A unit;
  std::memcpy(&unit, payload.data() + (values + 7) / 8 * 8 + bucket * sizeof(A), sizeof unit);
  return unit;
}

bool has_digits(double v, int digits) {
  int exponent;
  auto const scaled = std::ldexp(std::frexp(v, &exponent), digits);
  return scaled == std::floor(scaled);
}

}  // namespace

TEST_CASE("qsgd takes any input of any size and type") {
  conforms(qsgd<8>());
  conforms(qsgd<4>(7, 0));
  conforms(qsgd<2>(1, 8, norm::max), 8);
  conforms(qsgd<10>());
  conforms(qsgd<3>(2, 16), 16);
}

TEST_CASE_TEMPLATE("whole levels of a maximum norm by hand", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, qsgd<4>>(qsgd<4>(4, 128, norm::max), {5});
  auto const x = of<In>({2, -1, 0, 1.5, -0.5});
  auto const payload = t.compress(x);  // a level is 0.5 wide: 4, -2, 0, 3, -1 in two's complement
  REQUIRE(payload.size() == 8 + sizeof(pith::accum<In>));
  CHECK(payload[0] == std::byte{0xe4});
  CHECK(payload[1] == std::byte{0x30});
  CHECK(payload[2] == std::byte{0x0f});
  CHECK(unit_of<pith::accum<In>>(payload, 3, 0) == 0.5);
  for (int step = 0; step < 50; ++step) CHECK(widen(t.roundtrip(x)) == widen(x));
}

TEST_CASE_TEMPLATE("a unit is norm over levels rounded up to so many digits that products with symbols are exact",
                   Codec, qsgd<2>, qsgd<8>, qsgd<9>, qsgd<10>) {
  auto const digits = std::is_same_v<Codec, qsgd<10>> ? 15 : 16;
  auto const levels = Codec::max_levels;
  for (std::uint64_t seed = 1; seed < 60; ++seed) {
    auto const x = widen(narrow<float>(normal_vector(100, seed)));
    for (auto const of : {norm::l2, norm::max}) {
      double length = 0;
      for (auto const v : x) length = of == norm::l2 ? length + v * v : std::max(length, std::abs(v));
      if (of == norm::l2) length = std::sqrt(length);
      auto t = trial<float, Codec>(Codec(levels, 128, of), {100});
      auto const values = pith::value_bytes<pith::output_of<Codec, float>>(100);
      auto const unit = static_cast<double>(unit_of<float>(t.compress(narrow<float>(x)), values, 0));
      CHECK(has_digits(unit, digits));
      // The sum of squares has an error of 100 2^-53 at most, here and there.
      CHECK(unit >= length / levels * (1 - 0x1p-45));
      CHECK(unit <= length / levels * (1 + std::ldexp(1, 1 - digits)));
    }
  }
}

TEST_CASE_TEMPLATE("decoded values are exact multiples of the unit beside the element", Codec, qsgd<2>, qsgd<3>,
                   qsgd<4>, qsgd<5>, qsgd<8>, qsgd<9>, qsgd<10>) {
  for (auto const of : {norm::l2, norm::max}) {
    auto const codec = Codec(Codec::max_levels, 64, of);
    auto t = trial<float, Codec>(codec, {200});
    auto const x = narrow<float>(normal_vector(200, 51));
    auto const values = pith::value_bytes<pith::output_of<Codec, float>>(200);
    for (int step = 0; step < 20; ++step) {
      auto const payload = t.compress(x);
      auto const y = t.decompress(payload);
      unsigned wrong = 0;
      for (std::size_t i = 0; i < 200; ++i) {
        double const unit = static_cast<double>(unit_of<float>(payload, values, i / 64));
        auto const level = static_cast<double>(y[i]) / unit;
        auto const wanted = static_cast<double>(x[i]) / unit;
        wrong += level != std::round(level) || std::abs(level) > Codec::max_levels || std::abs(level - wanted) >= 1;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the fraction of a level is the probability to go up") {
  // 0.25 of a level, 2^-16 at a time: up if the 16 random bits are at least 3/4 of all, so in a quarter of the draws.
  auto x = std::vector<float>(1024, 0.25f);
  for (std::size_t i = 0; i < 1024; i += 8) x[i] = 1;
  auto t = trial<float, qsgd<2>>(qsgd<2>(1, 8, norm::max), {1024});
  double up = 0, draws = 0;
  for (int step = 0; step < 200; ++step) {
    auto const y = t.roundtrip(x);
    for (std::size_t i = 0; i < 1024; ++i) {
      if (i % 8 != 0) up += static_cast<double>(y[i]), ++draws;
      if (i % 8 == 0) CHECK(y[i] == 1);
    }
  }
  CHECK(std::abs(up / draws - 0.25) <= 5 * std::sqrt(0.25 * 0.75 / draws));
}

TEST_CASE("a bucket with NaN or infinity decodes to NaN and the others do not") {
  auto bad = std::vector<float>{INFINITY, -INFINITY};
  for (std::uint32_t const bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0x7fffffffu, 0xffffffffu}) {
    bad.push_back(pith::detail::bits_as<float>(bits));
  }
  for (auto const v : bad) {
    for (auto const of : {norm::l2, norm::max}) {
      auto x = narrow<float>(normal_vector(24, 52));
      x[11] = v;
      CAPTURE(pith::detail::bits_as<std::uint32_t>(v));
      auto t = trial<float, qsgd<8>>(qsgd<8>(127, 8, of), {24});
      auto const y = t.roundtrip(x);
      for (std::size_t i = 0; i < 24; ++i) CHECK(std::isnan(y[i]) == (8 <= i && i < 16));
      auto whole = trial<float, qsgd<8>>(qsgd<8>(127, 0, of), {24});
      for (auto const w : whole.roundtrip(x)) CHECK(std::isnan(w));
    }
  }
}

TEST_CASE("NaN of double with all bits set is NaN too") {
  auto x = std::vector<double>(8, 1);
  x[2] = pith::detail::bits_as<double>(~std::uint64_t{0});
  for (auto const v : trial<double, qsgd<8>>(qsgd<8>(), {8}).roundtrip(x)) CHECK(std::isnan(v));
}

TEST_CASE("a unit that overflows is the largest one and a norm may overflow") {
  auto const x = std::vector<double>{3e38, -3e38};
  auto const most = static_cast<double>(pith::largest_finite<float>);
  for (auto const v : decoded(qsgd<2>(), x)) CHECK((v == 0 || (std::abs(v) <= most && std::abs(v) >= most * (1 - 0x1p-15))));
  // The unit is rounded up by at most 2^-15: so is 127 times it, if the element goes to the highest level, or 126.
  CHECK(std::abs(decoded(qsgd<8>(127, 128, norm::max), x)[0] - 3e38) <= 3e38 / 127 * (1 + 0x1p-15));
  CHECK(std::abs(decoded(qsgd<8>(), x)[0] - 3e38) <= std::sqrt(2.) * 3e38 / 127 * (1 + 0x1p-15));
}

TEST_CASE("a norm of doubles neither overflows nor underflows") {
  for (double const size : {1e300, 1e160, 1e-170, 1e-290}) {
    auto const y = decoded<double>(qsgd<8>(), {3 * size, -4 * size});
    CHECK(std::abs(y[0] - 3 * size) <= 5 * size / 127 * (1 + 0x1p-15));
    CHECK(std::abs(y[1] + 4 * size) <= 5 * size / 127 * (1 + 0x1p-15));
  }
}

TEST_CASE("subnormal numbers decode to within a unit") {
  for (double const size : {0x1p-149, 0x1p-145, 0x1p-140, 0x1p-127}) {
    auto const x = std::vector<double>{3 * size, -size, 0, 2 * size};
    auto const y = decoded(qsgd<8>(), x);
    // The unit is norm / 127 rounded up to a multiple of 2^-141, the norm below 4 times the size.
    for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(y[i] - x[i]) <= 4 * size / 127 + 0x1p-141);
  }
}

TEST_CASE("omega is the lesser of the two bounds for the bucket") {
  auto const grown = 1 + 0x1p-15;
  CHECK(qsgd<8>().omega({1000}) == doctest::Approx(128 / (4 * 127. * 127.) * grown * grown).epsilon(1e-12));
  CHECK(qsgd<2>(1, 128).omega({1000}) == doctest::Approx(std::sqrt(128.) * grown).epsilon(1e-12));
  CHECK(qsgd<2>(1, 128).omega({9}) == doctest::Approx(9. / 4 * grown * grown).epsilon(1e-12));
  CHECK(qsgd<4>(7, 0).omega({100}) == doctest::Approx(100. / 196 * grown * grown).epsilon(1e-12));
}

TEST_CASE("levels and buckets that cannot be are refused") {
  CHECK_THROWS_WITH_AS(qsgd<8>(0), "pith::qsgd<8>: levels must be in [1, 127], got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(qsgd<3>(4), "pith::qsgd<3>: levels must be in [1, 3], got 4", std::invalid_argument);
  CHECK_THROWS_WITH_AS(qsgd<8>(127, 100), "pith::qsgd: bucket must be 0 (whole tensor) or a multiple of 8, got 100",
                       std::invalid_argument);
}

TEST_CASE("name() states the arguments unless all are the defaults") {
  CHECK(qsgd<8>().name() == "qsgd<8>");
  CHECK(qsgd<8>(100).name() == "qsgd<8>(100,128)");
  CHECK(qsgd<4>(7, 0).name() == "qsgd<4>(7,0)");
  CHECK(qsgd<4>(7, 128, norm::max).name() == "qsgd<4>(7,128,max)");
}

TEST_CASE("a payload has one symbol per element and one unit per bucket") {
  CHECK(pith::payload_bytes<float>(qsgd<8>(), {129}) == 136 + 2 * 4);
  CHECK(pith::payload_bytes<double>(qsgd<8>(), {129}) == 136 + 2 * 8);
  CHECK(pith::payload_bytes<float>(qsgd<3>(3, 0), {129}) == 56 + 4);
  CHECK(pith::payload_bytes<float>(qsgd<8>(), {0}) == 0);
}
