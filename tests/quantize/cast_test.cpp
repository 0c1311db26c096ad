// tests/quantize/cast_test.cpp — rounding to a narrower type.
#include <pith/quantize/cast.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

using namespace support;

TEST_CASE("cast takes any input of any size and type") {
  conforms(pith::cast<pith::half>());
  conforms(pith::cast<pith::bfloat16>());
  conforms(pith::cast<float>());
  conforms(pith::cast<double>());
}

TEST_CASE("half by hand") {
  auto const x = of({1, 1 + 0x1p-11, 1 + 3 * 0x1p-11, -2.5, 65504, 65520, 0x1p-25, 0x1.8p-25});
  auto t = trial<float, pith::cast<pith::half>>({}, {8});
  auto const payload = t.compress(x);
  CHECK(payload.size() == 16);
  CHECK(payload[2] == std::byte{0x00});
  CHECK(payload[3] == std::byte{0x3c});
  CHECK(t.decompress(payload) == of({1, 1, 1 + 0x1p-9, -2.5, 65504, infinity, 0, 0x1p-24}));
}

TEST_CASE("bfloat16 by hand") {
  auto const x = std::vector<double>{1, 1 + 0x1p-8, 1 + 3 * 0x1p-8, -2.5, 65504, 5 * 0x1p-134, 7 * 0x1p-134};
  CHECK(decoded(pith::cast<pith::bfloat16>(), x) ==
        std::vector<double>{1, 1, 1 + 0x1p-6, -2.5, 65536, 4 * 0x1p-134, 8 * 0x1p-134});
}

TEST_CASE_TEMPLATE("the relative error of normal values is below the unit roundoff", T, float, pith::half,
                   pith::bfloat16) {
  auto x = normal_vector(1000, 31);
  for (auto& v : x) v = v < 0 ? v - 1 : v + 1;
  auto const y = decoded<double>(pith::cast<T>(), x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    // A value between float neighbours may be rounded twice: first by 2^-24.
    CHECK(std::abs(y[i] - x[i]) <= (roundoff<T>() + 0x1p-24) * std::abs(x[i]));
  }
  CHECK(pith::cast<T>().delta({1000}) == 1 - roundoff<T>() * roundoff<T>());
}

TEST_CASE("NaN and infinity stay where they are") {
  auto const y = decoded(pith::cast<pith::half>(), {1, not_a_number, 2, -infinity, 1e9});
  CHECK(y[0] == 1);
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == 2);
  CHECK(y[3] == -infinity);
  CHECK(y[4] == infinity);
}

TEST_CASE("casting to a wider type is exact") {
  auto const x = widen(narrow<pith::bfloat16>(normal_vector(100, 32)));
  CHECK(decoded<pith::bfloat16>(pith::cast<float>(), x) == x);
  CHECK(decoded<float>(pith::cast<double>(), x) == x);
}

TEST_CASE("cast names its type") {
  CHECK(pith::cast<pith::half>().name() == "cast<half>");
  CHECK(pith::cast<pith::bfloat16>().name() == "cast<bfloat16>");
}
