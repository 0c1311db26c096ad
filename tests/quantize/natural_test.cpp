// tests/quantize/natural_test.cpp — stochastic rounding to powers of two.
#include <pith/quantize/natural.hpp>

#include <doctest/doctest.h>

#include <cstdint>

#include "support/conform.hpp"

using namespace support;
using pith::natural;

namespace {

/// NaN equals itself.
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// x, rounded by the rule with these random bits.
template <int Bits, class A>
A rounded(A x, unsigned random) {
  auto const rule = pith::detail::natural_rule<Bits>();
  auto const none = pith::unscaled<A>();
  return rule.value(rule.code(x, none, static_cast<std::uint16_t>(random)), none);
}

/// The mean over all 2^16 random bits; sums of so many powers of two are exact.
template <int Bits, class A>
double mean(A x) {
  double sum = 0;
  for (unsigned r = 0; r < 65536; ++r) sum += static_cast<double>(rounded<Bits>(x, r));
  return sum / 65536;
}

}  // namespace

TEST_CASE("natural takes any input of any size and type") {
  conforms(natural<8>());
  conforms(natural<9>());
  conforms(natural<8>(), 512);  // a block of seq
}

TEST_CASE_TEMPLATE("powers of two by hand", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, natural<8>>(natural<8>(), {5});
  auto const x = of<In>({1, -2, 0, 0.5, -0.0});
  auto const payload = t.compress(x);  // the exponent and 109, and the sign
  CHECK(payload == std::vector{std::byte{109}, std::byte{0x80 + 110}, std::byte{0}, std::byte{108}, std::byte{0}});
  CHECK(widen(t.decompress(payload)) == std::vector<double>{1, -2, 0, 0.5, 0});
}

TEST_CASE("there is no side information") {
  CHECK(pith::payload_bytes<float>(natural<8>(), {129}) == 129);
  CHECK(pith::payload_bytes<double>(natural<9>(), {16}) == 18);
  CHECK(pith::payload_bytes<float>(natural<8>(), {0}) == 0);
  CHECK(natural<8>().side_bytes<float>({100000}) == 0);
  CHECK(natural<8>().scratch_bytes<float>(pith::seq, {100000}) == 0);
}

TEST_CASE_TEMPLATE("over all random bits the mean is the element but for 2^-16 of it", A, float, double) {
  for (double const v : {1.0, 1.25, -1.3333333, 1.5, 1.9999, -3.7, 1 + 0x1p-23, 2 - 0x1p-23, 0.01, -1e-30, 2e5}) {
    CAPTURE(v);
    auto const x = static_cast<A>(v);
    auto const exact = static_cast<double>(x);
    CHECK(std::abs(mean<8>(x) - exact) <= 0x1p-16 * std::abs(exact));
    CHECK(std::abs(mean<9>(x) - exact) <= 0x1p-16 * std::abs(exact));
  }
}

TEST_CASE("the mean of a denormal float is the element with nine bits, up to 2^-16 of the least power") {
  for (double const v : {0x1p-149, -0x1p-127, 0x1.8p-127, 1e-40, -1e-41}) {
    CHECK(std::abs(mean<9>(static_cast<float>(v)) - v) <= 0x1p-16 * 0x1p-126);
  }
}

TEST_CASE("an element goes to one of the powers of two beside it") {
  auto const x = normal_vector(5000, 91);
  auto const y = decoded(natural<8>(), x);
  unsigned wrong = 0, up = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto const below = std::exp2(std::floor(std::log2(std::abs(static_cast<double>(static_cast<float>(x[i]))))));
    auto const size = y[i] / (x[i] < 0 ? -1 : 1);
    wrong += size != below && size != 2 * below;
    up += size == 2 * below;
  }
  CHECK(wrong == 0);
  CHECK(up > 0);
  CHECK(up < x.size());
}

TEST_CASE_TEMPLATE("zero stays zero, values out of range saturate or become zero, and NaN and infinity become NaN", In,
                   float, double, pith::bfloat16) {
  struct {
    double x, eight, nine;
  } const table[] = {{0, 0, 0},
                     {-0.0, 0, 0},
                     {0x1p18, 0x1p18, 0x1p18},
                     {-0x1p19, -0x1p18, -0x1p19},
                     {0x1p100, 0x1p18, 0x1p100},
                     {0x1p127, 0x1p18, 0x1p127},
                     {-0x1.fep127, -0x1p18, -0x1p127},
                     {0x1p-108, 0x1p-108, 0x1p-108},
                     {-0x1p-109, 0, -0x1p-109},
                     {0x1p-126, 0, 0x1p-126},
                     {infinity, not_a_number, not_a_number},
                     {-infinity, not_a_number, not_a_number},
                     {not_a_number, not_a_number, not_a_number},
                     {-not_a_number, not_a_number, not_a_number}};
  for (auto const& row : table) {
    CAPTURE(row.x);
    auto const x = std::vector<double>{1, row.x, -2};
    auto const a = decoded<In>(natural<8>(), x), b = decoded<In>(natural<9>(), x);
    CHECK(same(a[1], row.eight));
    CHECK(same(b[1], row.nine));
    CHECK((a[0] == 1 && a[2] == -2 && b[0] == 1 && b[2] == -2));  // its neighbours are as they were
  }
}

TEST_CASE("regression against the reference: negative denormals do not decode to +131072") {
  // Its CUDA kernel looks the code of -1e-40 up in the positive half of a table, and that of +1e-40 before the table.
  auto const x = std::vector<double>{-1e-40, 1e-40, -0x1p-149, -0x1.fffffcp-127};
  CHECK(decoded(natural<8>(), x) == std::vector<double>(4, 0));
  for (auto const v : decoded(natural<9>(), x)) CHECK(std::abs(v) <= 0x1p-126);
}

TEST_CASE("doubles beyond the range of floats saturate or vanish") {
  auto const x = std::vector<double>{1e300, -1e300, 1e-300, -4.9e-324};
  CHECK(decoded<double>(natural<8>(), x) == std::vector<double>{0x1p18, -0x1p18, 0, 0});
  CHECK(decoded<double>(natural<9>(), x) == std::vector<double>{0x1p127, -0x1p127, 0, 0});
}

TEST_CASE("all halves that are powers of two are exact, denormal ones too") {
  auto x = std::vector<double>();
  for (int e = -24; e <= 15; ++e) x.push_back(e % 2 == 0 ? std::ldexp(1, e) : -std::ldexp(1, e));
  CHECK(decoded<pith::half>(natural<8>(), x) == x);
  CHECK(decoded<pith::half>(natural<9>(), x) == x);
}

TEST_CASE("the error is that of the two powers and omega is met at 4/3") {
  CHECK(natural<8>().omega({1000}) == 1.0 / 8 + 0x1p-16);
  double square = 0;
  auto const x = 4.0f / 3;
  for (unsigned r = 0; r < 65536; ++r) square += std::pow(static_cast<double>(rounded<9>(x, r) - x), 2);
  auto const omega = square / 65536 / std::pow(static_cast<double>(x), 2);
  CHECK(omega <= natural<9>().omega({1}));
  CHECK(omega >= 1.0 / 8 - 0x1p-16);
}

TEST_CASE("names") {
  CHECK(natural().name() == "natural<8>");
  CHECK(natural<9>().name() == "natural<9>");
}
