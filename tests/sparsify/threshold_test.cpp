// tests/sparsify/threshold_test.cpp — entries of at least a magnitude, with room for all of them or not.
#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/threshold.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

#include "support/conform.hpp"
#include "support/reversed.hpp"

using namespace support;
using pith::overflow;
using pith::threshold;
using dense = threshold<overflow::dense>;

namespace {

std::vector<double> cut(std::vector<double> x, double tau, std::size_t most) {
  std::size_t kept = 0;
  for (auto& v : x) {
    if (std::abs(v) < tau || kept == most) {
      v = 0;
    } else {
      ++kept;
    }
  }
  return x;
}

std::size_t reaching(std::vector<double> const& x, double tau) {
  return static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [=](double v) { return !(std::abs(v) < tau); }));
}

template <class In, class C>
std::uint32_t count_in(C const& codec, std::vector<std::byte> const& payload, pith::shape dims) {
  auto const values = pith::detail::align_up(pith::value_bytes<In>(codec.output_shape(dims).n), 8);
  std::uint32_t count = 0;
  std::memcpy(&count, payload.data() + values, sizeof(count));
  return count;
}

/// A payload of another executor than `seq`.
template <class In, class C>
std::vector<std::byte> encoded_backwards(C const& codec, std::vector<In> const& x) {
  auto const exec = reversed();
  auto const dims = pith::shape{x.size()};
  auto state = pith::make_state<In>(exec, codec, dims);
  auto memory = std::vector<std::byte>(pith::workspace_bytes<In>(exec, codec, dims));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto payload = std::vector<std::byte>(pith::payload_bytes<In>(codec, dims), std::byte{0x77});
  pith::compress(exec, codec, pith::span<In const>(x), pith::span<std::byte>(payload), state, ws);
  return payload;
}

}  // namespace

TEST_CASE("threshold takes any input of any size and type") {
  conforms(threshold(0.5));
  conforms(threshold(0.5, 0.1));
  conforms(threshold(1e-9, 1e-9));
  conforms(dense(0.5, 0.1));
  conforms(threshold(0.5, 0.2), {{8191}, {8192}, {8193}, {20000}});
  conforms(dense(0.5, 0.2), {{8191}, {8192}, {8193}, {20000}});
}

TEST_CASE_TEMPLATE("six numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  auto const codec = threshold(2, 0.7);
  auto t = trial<In, threshold<>>(codec, {6});
  auto const payload = t.compress(of<In>({1, -8, 2, 0, 4, 1.5}));
  auto const values = (4 * sizeof(In) + 7) / 8 * 8;
  REQUIRE(payload.size() == values + 4 + 2);
  auto kept = std::vector<In>(4);
  std::memcpy(kept.data(), payload.data(), 4 * sizeof(In));
  CHECK(widen(kept) == std::vector<double>{-8, 2, 4, 0});
  CHECK(count_in<In>(codec, payload, {6}) == 3);
  CHECK(payload[values + 4] == std::byte{0b00010001});  // 1, 2, 4 of three bits, then zeros
  CHECK(payload[values + 5] == std::byte{0b1});
  CHECK(widen(t.decompress(payload)) == std::vector<double>{0, -8, 2, 0, 4, 0});
}

TEST_CASE("elements beyond the capacity are left out, or the whole tensor is sent with the option dense") {
  auto const x = std::vector<double>{3, -3, 1, 5, 4, 0, 0, 0, 0, 0};
  CHECK(decoded(threshold(2, 0.2), x) == std::vector<double>{3, -3, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(decoded(dense(2, 0.2), x) == x);
  CHECK(decoded(dense(2, 0.4), x) == std::vector<double>{3, -3, 0, 5, 4, 0, 0, 0, 0, 0});
  auto t = trial<float, dense>(dense(2, 0.2), {10});
  CHECK(count_in<float>(dense(2, 0.2), t.compress(of(std::initializer_list<double>{3, -3, 1, 5, 4, 0, 0, 0, 0, 0})),
                        {10}) == 10);
}

TEST_CASE_TEMPLATE("threshold keeps the same elements as a plain loop", In, float, double, pith::half, pith::bfloat16) {
  for (std::size_t const n : {1u, 7u, 100u, 2049u, 8192u, 8193u, 30000u}) {
    auto const x = widen(narrow<In>(normal_vector(n, n)));
    for (double const tau : {0.25, 0.7, 1.5, 100.0}) {
      for (double const capacity : {0.001, 0.2, 1.0}) {
        CAPTURE(n);
        CAPTURE(tau);
        CAPTURE(capacity);
        auto const room = threshold(tau, capacity).capacity(n);
        CHECK(decoded<In>(threshold(tau, capacity), x) == cut(x, tau, room));
        CHECK(decoded<In>(dense(tau, capacity), x) == (reaching(x, tau) > room ? x : cut(x, tau, room)));
      }
    }
  }
}

TEST_CASE("a tau between two numbers is met from above") {
  auto const above = 1 + 0x1p-23;
  CHECK(decoded(threshold(1 + 0x1p-30), {1, above}) == std::vector<double>{0, above});
  CHECK(decoded(threshold(1e300), {3e38, infinity}) == std::vector<double>{0, infinity});
  CHECK(decoded(threshold(0x1p-200), {0, 0x1p-149}) == std::vector<double>{0, 0x1p-149});
}

TEST_CASE("NaN and infinity are kept") {
  auto const y = decoded(threshold(10), {5, not_a_number, 1, -infinity, 9, 2});
  CHECK(std::isnan(y[1]));
  CHECK(y[3] == -infinity);
  CHECK(y[0] == 0);
}

TEST_CASE_TEMPLATE("blocks in another order give the same bytes", C, threshold<>, dense) {
  for (std::size_t const n : {0u, 5u, 20000u}) {
    auto const x = narrow<float>(normal_vector(n, 41));
    for (double const capacity : {0.05, 0.9}) {
      CHECK(trial<float, C>(C(0.5, capacity), {n}).compress(x) == encoded_backwards(C(0.5, capacity), x));
    }
  }
}

TEST_CASE("a count that no encoder writes is no more than the capacity") {
  auto const codec = threshold(1, 0.5);
  auto t = trial<float, threshold<>>(codec, {8});
  auto payload = t.compress(of({9, 8, 0, 7, 0, 6, 5, 4}));
  auto const expected = t.decompress(payload);
  CHECK(widen(expected) == std::vector<double>{9, 8, 0, 7, 0, 6, 0, 0});
  for (std::uint32_t const count : {4u, 5u, 8u, 9u, 0xffffffffu}) {
    std::memcpy(payload.data() + 16, &count, sizeof(count));
    CHECK(t.decompress(payload) == expected);
  }
}

TEST_CASE_TEMPLATE("elements beyond the capacity are sent in later steps with error feedback", C, threshold<>, dense) {
  auto const n = std::size_t{1000};
  auto t = trial<float, pith::error_feedback<C>>(pith::error_feedback(C(0.5, 0.05)), {n});
  auto& residual = std::get<1>(t.state().local().each).residual;
  for (std::uint64_t step = 0; step < 40; ++step) {
    auto const g = step < 15 ? normal_vector(n, step) : std::vector<double>(n);
    auto const sent = t.roundtrip(narrow<float>(g));
    for (std::size_t i = 0; i < n; ++i) CHECK((sent[i] == 0 || residual.data()[i] == 0));
  }
  CHECK(reaching(widen(std::vector<float>(residual.data(), residual.data() + n)), 0.5) == 0);
}

TEST_CASE_TEMPLATE("the decoded values and the residual add up to the gradients", C, threshold<>, dense) {
  auto const n = std::size_t{500};
  auto t = trial<double, pith::error_feedback<C>>(pith::error_feedback(C(0.5, 0.1)), {n});
  auto random = std::mt19937_64(42);
  auto total = std::vector<double>(n), sum = total;
  for (int step = 0; step < 40; ++step) {
    auto g = std::vector<double>(n);
    for (auto& v : g) v = static_cast<double>(random() % 17) / 16 - 0.5;  // exact sums
    auto const sent = t.roundtrip(g);
    for (std::size_t i = 0; i < n; ++i) total[i] += g[i], sum[i] += sent[i];
  }
  auto& residual = std::get<1>(t.state().local().each).residual;
  for (std::size_t i = 0; i < n; ++i) CHECK(sum[i] + residual.data()[i] == total[i]);
}

TEST_CASE("room in the shape is a smaller capacity") {
  auto const x = narrow<float>({0, 9, 0, 7, -9, 0, 0, 9});
  auto roomy = trial<float, threshold<>>(threshold(1, 0.5), pith::shape{8, 1, 3});
  auto small = trial<float, threshold<>>(threshold(1, 0.375), pith::shape{8});
  CHECK(roomy.compress(x) == small.compress(x));
  CHECK(roomy.roundtrip(x) == narrow<float>({0, 9, 0, 7, -9, 0, 0, 0}));
  CHECK(threshold(1, 0.5).capacity(pith::shape{8, 1, 5}) == 4);
  CHECK(threshold(1).error_bound({8, 1, 7}) == infinity);
}

TEST_CASE("a quantizer follows") {
  auto const codec = threshold(2, 0.5) | pith::scaled_sign();
  auto const y = decoded(codec, {4, 1, -6, 0.5, 0, 0, 0, 0});
  CHECK(y == std::vector<double>{2.5, 0, -2.5, 0, 0, 0, 0, 0});  // the mean of four places
}

TEST_CASE("name() states the parameters, error_bound() follows from them, and invalid arguments are refused") {
  CHECK(threshold(0.5).name() == "threshold(0.5)");
  CHECK(threshold(0.5, 0.1).name() == "threshold(0.5,0.1)");
  CHECK(dense(0.5, 0.1).name() == "threshold(0.5,0.1,dense)");
  CHECK(dense(0.5).name() == "threshold(0.5,1,dense)");
  CHECK(threshold(0.5).error_bound({10}) == 0.5);
  CHECK(threshold(0.5, 0.9).error_bound({10}) == infinity);
  CHECK(dense(0.5, 0.1).error_bound({10}) == 0.5);
  CHECK_THROWS_WITH_AS(threshold(0), "pith::threshold: tau must be positive and finite, got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(threshold<>{infinity}, "pith::threshold: tau must be positive and finite, got inf",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(threshold(1, 0), "pith::threshold: capacity must be in (0, 1], got 0", std::invalid_argument);
}
