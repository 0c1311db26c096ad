// tests/quantize/stochastic_cast_test.cpp — stochastic rounding to bfloat16.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/stochastic_cast.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "support/conform.hpp"

using namespace support;

namespace {

using stochastic = pith::stochastic_cast<pith::bfloat16>;

/// The symbol of x with these random bits.
template <class A>
std::uint32_t symbol(A x, unsigned random) {
  return pith::detail::stochastic_cast_rule().code(x, pith::unscaled<A>(), static_cast<std::uint16_t>(random));
}

double value(std::uint32_t symbol) { return static_cast<double>(pith::detail::bits_as<float>(symbol << 16)); }

/// The mean over all 2^16 random bits. The sum is exact, because it has at most 8 + 16 digits.
template <class A>
double mean(A x) {
  double sum = 0;
  for (unsigned r = 0; r < 65536; ++r) sum += value(symbol(x, r));
  return sum / 65536;
}

}  // namespace

TEST_CASE("stochastic_cast takes inputs of all sizes and types") {
  conforms(stochastic());
  conforms(stochastic(), 512);  // a block of seq
}

TEST_CASE_TEMPLATE("the magnitude is rounded up if the sum of its lower half and the random bits carries", A, float,
                   double) {
  auto const x = static_cast<A>(1 + 0x1p-9);  // 3f804000
  CHECK(symbol(x, 0xbfff) == 0x3f80);
  CHECK(symbol(x, 0xc000) == 0x3f81);
  CHECK(symbol(-x, 0xbfff) == 0xbf80);
  CHECK(symbol(-x, 0xc000) == 0xbf81);
}

TEST_CASE("the mean over all random bits is the element") {
  for (double const v : {1.0, 1.25, -1.3333333, 1.9999, -3.7, 1 + 0x1p-23, 2 - 0x1p-23, 0.01, -1e-30, 2e5, 3.3e38,
                         0x1p-126, -1e-40, 0x1p-149}) {
    CAPTURE(v);
    auto const x = static_cast<float>(v);
    CHECK(mean(x) == static_cast<double>(x));
    CHECK(std::abs(mean(v) - v) <= std::max(0x1p-24 * std::abs(v), 0x1p-150));
  }
}

TEST_CASE("the mean squared error is at most omega x^2, and each squared error at most (1 - delta) x^2") {
  for (double const v : {1 + 0x1p-8, 1 + 0x1p-23, 1.9999, -1.004}) {
    auto const x = static_cast<float>(v);
    double squares = 0, largest = 0;
    for (unsigned r = 0; r < 65536; ++r) {
      auto const error = value(symbol(x, r)) / static_cast<double>(x) - 1;
      squares += error * error;
      largest = std::max(largest, error * error);
    }
    CHECK(squares / 65536 <= stochastic().omega({1}));
    CHECK(largest <= 1 - stochastic().delta({1}));
  }
  CHECK(stochastic().omega({1}) == 0x1p-16);
}

TEST_CASE("values of bfloat16 are exact") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    auto const x = static_cast<float>(value(bits));
    if (std::isnan(x)) continue;
    CHECK((symbol(x, 0) == bits && symbol(x, 0xffff) == bits && symbol(static_cast<double>(x), 0xffff) == bits));
  }
}

TEST_CASE_TEMPLATE("finite elements stay finite, and infinity and NaN are unchanged", A, float, double) {
  auto const largest = pith::largest_finite<A>;
  for (unsigned const r : {0u, 0xffffu}) {
    CHECK(symbol(largest, r) == 0x7f7f);
    CHECK(symbol(-largest, r) == 0xff7f);
    CHECK(symbol(static_cast<A>(infinity), r) == 0x7f80);
    CHECK(symbol(static_cast<A>(-infinity), r) == 0xff80);
    CHECK(symbol(static_cast<A>(not_a_number), r) % 0x8000 == 0x7fc0);
  }
}

TEST_CASE("the payload has the bytes of cast<bfloat16> for values of bfloat16") {
  auto const x = narrow<pith::bfloat16>(normal_vector(1001, 5));
  auto a = trial<pith::bfloat16, stochastic>(stochastic(), {x.size()});
  auto b = trial<pith::bfloat16, pith::cast<pith::bfloat16>>({}, {x.size()});
  CHECK(a.compress(x) == b.compress(x));
  CHECK(pith::payload_bytes<float>(stochastic(), {129}) == 258);
  CHECK(stochastic().name() == "stochastic_cast<bfloat16>");
}

TEST_CASE("the rounding errors of ranks with equal gradients average out") {
  constexpr unsigned ranks = 16;
  constexpr std::size_t n = 4096;
  auto const x = 1 + 0x1p-9;
  auto const error_of = [&](auto const& codec) {
    double sum = 0;
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"a", {n}}}, codec);
      auto g = std::vector<float>(n, static_cast<float>(x));
      exchange.all_reduce_mean(g);
      for (std::size_t i = 0; comm.rank() == 0 && i < n; ++i) sum += static_cast<double>(g[i]);
    });
    return std::abs(sum / n - x);
  };
  auto const deviation = 0x1p-7 * std::sqrt(3.0 / 16) / std::sqrt(ranks * n);  // each draw is 2^-7 in one case of four
  CHECK(error_of(stochastic()) <= 5 * deviation);
  CHECK(error_of(pith::cast<pith::bfloat16>()) == 0x1p-9);
}

TEST_CASE("the mean of the largest floats is finite") {
  for (unsigned const ranks : {2u, 7u}) {
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"a", {9}}}, stochastic());
      auto g = std::vector<float>(9, -pith::largest_finite<float>);
      exchange.all_reduce_mean(g);
      for (auto const v : g) CHECK((-pith::largest_finite<float> <= v && v <= -3.3e38f));
    });
  }
}
