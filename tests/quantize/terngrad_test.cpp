// tests/quantize/terngrad_test.cpp — minus one, zero or one, times a rank-local or shared scale.
#include <pith/adaptor/damped.hpp>
#include <pith/comm/threads.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/summed_terngrad.hpp>
#include <pith/quantize/terngrad.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

#include "support/conform.hpp"
#include "support/fed_back.hpp"

using namespace support;
using pith::summed_terngrad;
using pith::terngrad;
using unclipped = pith::terngrad<pith::outliers::unclipped>;

namespace {

template <class In>
double scale_of(std::vector<std::byte> const& payload, std::uint64_t n) {
  pith::accum<In> scale;
  std::memcpy(&scale, payload.data() + pith::detail::align_up(pith::value_bytes<pith::packed<2>>(n), 8), sizeof scale);
  return static_cast<double>(scale);
}

double largest(std::vector<double> const& x) {
  double most = 0;
  for (auto const v : x) most = std::max(most, std::abs(v));
  return most;
}

/// sigma population standard deviations.
double bound_of(std::vector<double> const& x, double sigma) {
  auto const n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (auto const v : x) mean += v / n;
  for (auto const v : x) variance += (v - mean) * (v - mean) / n;
  return sigma * std::sqrt(variance);
}

template <class In, class C>
double scale(C const& codec, std::vector<double> const& x) {
  return scale_of<In>(trial<In, C>(codec, {x.size()}).compress(narrow<In>(x)), x.size());
}

std::vector<double> rank_gradient(std::uint64_t n, unsigned rank) {
  auto x = widen(narrow<float>(normal_vector(n, 300 + rank)));
  for (auto& v : x) v *= 1 + rank;
  return x;
}

/// What rank 0 receives in each of some steps.
template <class In, class C>
std::vector<std::vector<In>> exchanged(C const& codec, unsigned ranks, std::uint64_t n, int steps, double spoilt = 0) {
  auto all = std::vector<std::vector<In>>();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto state = pith::make_state<In>(pith::seq, codec, {n}, {7, 1, static_cast<std::uint16_t>(comm.rank())});
    auto memory = std::vector<std::byte>(pith::workspace_bytes<In>(pith::seq, codec, {n}, ranks));
    for (int step = 0; step < steps; ++step) {
      auto x = narrow<In>(rank_gradient(n, comm.rank()));
      if (comm.rank() == 1 && spoilt != 0) x[n / 2] = pith::element_cast<In>(spoilt);
      auto ws = pith::workspace<>(pith::span<std::byte>(memory));
      pith::all_reduce_mean(pith::seq, comm, codec, pith::span<In>(x), state, ws);
      if (comm.rank() == 0) all.push_back(x);
    }
  });
  return all;
}

}  // namespace

TEST_CASE("terngrad takes any input of any size and type") {
  conforms(terngrad());
  conforms(terngrad(0));
  conforms(unclipped());
  conforms(terngrad(1, 64), 64);
  conforms(summed_terngrad());
}

TEST_CASE_TEMPLATE("signs of the scale by hand", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, unclipped>(unclipped(), {5});
  auto const x = of<In>({2, -2, 0, -2, -0.0});
  auto const payload = t.compress(x);  // 1, -1, 0, -1, 0 in two's complement
  REQUIRE(payload.size() == 8 + sizeof(pith::accum<In>));
  CHECK(payload[0] == std::byte{0b11'00'11'01});
  CHECK(payload[1] == std::byte{0});
  CHECK(scale_of<In>(payload, 5) == 2);
  for (int step = 0; step < 50; ++step) CHECK(widen(t.roundtrip(x)) == widen(x));
}

TEST_CASE_TEMPLATE("regression against the reference: equal elements, and one alone, are exact and not zero", In, float,
                   double, pith::half, pith::bfloat16) {
  // Their deviation is 0, to which the reference clips all of them. Rounding may make it more than 0 here.
  for (double const v : {0.7, -0.1, 1e-3, 3.0, -6e4, 1e-7}) {
    CAPTURE(v);
    for (std::size_t const n : {1u, 2u, 7u, 1000u, 16385u}) {
      auto const x = std::vector<In>(n, pith::element_cast<In>(v));
      auto t = trial<In, terngrad<>>(terngrad(), {n});
      for (int step = 0; step < 3; ++step) CHECK(same_bytes(t.roundtrip(x), x));
    }
  }
  auto const zeros = std::vector<double>(100);
  CHECK(decoded<In>(terngrad(), zeros) == zeros);
}

TEST_CASE("a tensor of nearly equal elements is not clipped") {
  auto x = normal_vector(1000, 81);
  for (auto& v : x) v = 1 + 0.001 * v;
  CHECK(scale<float>(terngrad(), x) == static_cast<double>(static_cast<float>(largest(x))));
}

TEST_CASE_TEMPLATE("the scale is the largest magnitude or sigma deviations", In, float, double) {
  for (std::size_t const n : {2u, 100u, 20000u, 50000u}) {
    auto const x = widen(narrow<In>(normal_vector(n, 82)));
    CHECK(scale<In>(terngrad(0), x) == largest(x));
    CHECK(scale<In>(unclipped(), x) == largest(x));
    CHECK(scale<In>(terngrad(100), x) == largest(x));
    for (double const sigma : {1.0, 2.5}) {
      // The mean is cut to 24 digits, and is below a tenth of a deviation beyond n = 100: 2^-23 / 100 of the variance.
      auto const exact = std::min(largest(x), bound_of(x, sigma));
      if (n > 2) CHECK(std::abs(scale<In>(terngrad(sigma), x) - exact) <= (0x1p-24 + 0x1p-29) * exact);
    }
  }
}

TEST_CASE("the fraction of the scale is the probability to be sent") {
  auto x = std::vector<float>(1024, 0.25f);
  x[0] = 1;
  auto t = trial<float, unclipped>(unclipped(), {1024});
  double sent = 0, draws = 0;
  for (int step = 0; step < 200; ++step) {
    auto const y = t.roundtrip(x);
    CHECK(y[0] == 1);
    for (std::size_t i = 1; i < 1024; ++i) sent += static_cast<double>(y[i]), ++draws;
  }
  CHECK(std::abs(sent / draws - 0.25) <= 5 * std::sqrt(0.25 * 0.75 / draws));
}

TEST_CASE("elements beyond the clipping bound always decode to the bound") {
  auto x = narrow<float>(normal_vector(1000, 83));
  x[3] = 50, x[4] = -60;
  auto t = trial<float, terngrad<>>(terngrad(), {1000});
  for (int step = 0; step < 20; ++step) {
    auto const payload = t.compress(x);
    auto const s = static_cast<float>(scale_of<float>(payload, 1000));
    CHECK(s < 10);
    auto const y = t.decompress(payload);
    CHECK(y[3] == s);
    CHECK(y[4] == -s);
  }
}

TEST_CASE("a bucket with NaN or infinity decodes to NaN and the others do not") {
  for (double const bad : {not_a_number, -not_a_number, infinity, -infinity}) {
    auto x = normal_vector(24, 84);
    x[11] = bad;
    for (double const sigma : {0.0, 2.5}) {
      auto const y = decoded(terngrad(sigma, 8), x);
      for (std::size_t i = 0; i < 24; ++i) CHECK(std::isnan(y[i]) == (i / 8 == 1));
      for (auto const v : decoded(terngrad(sigma), x)) CHECK(std::isnan(v));
    }
  }
}

TEST_CASE("subnormal numbers and the largest ones have scales") {
  for (double const size : {0x1p-149, 0x1p-130, 0x1p126}) {
    auto const x = std::vector<double>{size, -size, 0, size};
    CHECK(decoded(unclipped(), x) == x);
  }
  auto const huge = std::vector<double>{1e300, -1e300};  // whose squares overflow: nothing is clipped
  CHECK(decoded<double>(terngrad(), huge) == huge);
}

TEST_CASE("a payload has a quarter of a byte per element, and one scale") {
  CHECK(pith::payload_bytes<float>(terngrad(), {129}) == 40 + 4);
  CHECK(pith::payload_bytes<double>(terngrad(2.5, 64), {129}) == 40 + 3 * 8);
  CHECK(pith::payload_bytes<float>(terngrad(), {0}) == 0);
}

TEST_CASE("omega is met by one element among others of a third") {
  // (1, 1/3, 1/3, 1/3): the others vary by 1/3 - 1/9 each, so that all do by a half of |x|^2 = 4/3.
  auto const rule = unclipped().rule();
  auto const refined = rule.refine(1.0f);
  auto const third = 1.0f / 3;
  double square = 0;
  for (unsigned r = 0; r < 65536; ++r) {
    auto const y = rule.value(rule.code(third, refined, static_cast<std::uint16_t>(r)), 1.0f);
    square += std::pow(static_cast<double>(y - third), 2) / 65536;
  }
  auto const variance = 3 * square / (4.0 / 3);
  CHECK(variance <= unclipped().omega({4}));
  CHECK(variance >= 0.5 - 0x1p-16);
}

TEST_CASE("omega grows with the root of the bucket, and names state the parameters") {
  CHECK(unclipped().omega({0}) == 0);
  CHECK(unclipped().omega({9}) == 1 + 0x1p-16);
  CHECK(unclipped({}, 64).omega({1000}) == 3.5 + 0x1p-16);
  CHECK(terngrad().name() == "terngrad");
  CHECK(terngrad(3).name() == "terngrad(3)");
  CHECK(terngrad(2.5, 64).name() == "terngrad(2.5,64)");
  CHECK(terngrad(1.2345678).name() == "terngrad(1.2345678)");
  CHECK(terngrad(1.2345678, 64).name() == "terngrad(1.2345678,64)");
  CHECK(terngrad(0).name() == unclipped().name());
  CHECK(terngrad(0, 64).name() == unclipped({}, 64).name());
  CHECK(summed_terngrad().name() == "summed_terngrad");
  CHECK(summed_terngrad(0).name() == "summed_terngrad(0)");
}

TEST_CASE("a sigma that cannot be is refused") {
  CHECK_THROWS_WITH_AS(terngrad(-1), "pith::terngrad: sigma must be finite and at least 0, got -1",
                       std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(terngrad(infinity)), std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(summed_terngrad(not_a_number)), std::invalid_argument);
}

TEST_CASE_TEMPLATE("a shared scale is the largest of the ranks', and means are whole shares of it", In, float, double) {
  for (unsigned const ranks : {1u, 2u, 5u}) {
    for (std::uint64_t const n : {1u, 9u, 1000u, 20000u}) {
      CAPTURE(ranks);
      CAPTURE(n);
      double most = 0;
      for (unsigned rank = 0; rank < ranks; ++rank)
        most = std::max(most, scale<In>(terngrad(), rank_gradient(n, rank)));
      unsigned wrong = 0;
      for (auto const v : widen(exchanged<In>(summed_terngrad(), ranks, n, 1)[0])) {
        auto const level = v / most * ranks;
        // Two products round: the level is at most the number of ranks.
        wrong += !(std::abs(level - std::round(level)) <= 3 * roundoff<In>() * ranks && std::abs(level) <= ranks + 0.5);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the exchanged mean of summed_terngrad averages over many steps to the mean of the gradients") {
  constexpr int steps = 400;
  constexpr unsigned ranks = 3;
  constexpr std::uint64_t n = 200;
  auto sum = std::vector<double>(n), exact = sum, variance = sum;
  for (auto const& y : exchanged<float>(summed_terngrad(0), ranks, n, steps)) {
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(y[i]) / steps;
  }
  double s = 0;
  for (unsigned rank = 0; rank < ranks; ++rank) s = std::max(s, largest(rank_gradient(n, rank)));
  for (unsigned rank = 0; rank < ranks; ++rank) {
    auto const x = rank_gradient(n, rank);
    for (std::size_t i = 0; i < n; ++i) {
      exact[i] += x[i] / ranks;
      variance[i] += (s * std::abs(x[i]) - x[i] * x[i]) / (ranks * ranks);
    }
  }
  // Five standard errors, and the bias of 2^-16 of the scale; an event of less than ten in all steps may not be seen.
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(std::abs(sum[i] - exact[i]) <= 5 * std::sqrt(variance[i] / steps) + 10 * s / ranks / steps + 0x1p-16 * s);
  }
}

TEST_CASE("NaN or infinity of one rank makes the mean NaN on all, and the next step is sound") {
  for (double const bad : {not_a_number, infinity, -infinity}) {
    auto const steps = exchanged<float>(summed_terngrad(), 3, 100, 1, bad);
    for (auto const v : steps[0]) CHECK(std::isnan(v));
  }
  auto t = trial<float, summed_terngrad>(summed_terngrad(), {8});
  for (auto const v : t.all_reduce(std::vector<float>(8, NAN))) CHECK(std::isnan(v));
  CHECK(t.all_reduce(std::vector<float>(8, 0.5f)) == std::vector<float>(8, 0.5f));
}

TEST_CASE("sums of more than 127 ranks travel in four bytes") {
  using pith::element_kind;
  using pith::transfer;
  using pith::transport;
  CHECK(summed_terngrad().round<float>(0, {10}, 8) == transfer{transport::all_reduce_max, element_kind::f32, 1});
  CHECK(summed_terngrad().round<double>(0, {10}, 8) == transfer{transport::all_reduce_max, element_kind::f64, 1});
  CHECK(summed_terngrad().round<float>(1, {10}, 127) == transfer{transport::all_reduce_sum, element_kind::i8, 10});
  CHECK(summed_terngrad().round<float>(1, {10}, 128) == transfer{transport::all_reduce_sum, element_kind::i32, 10});
  auto const x = narrow<float>(normal_vector(100, 85));
  auto one = trial<float, summed_terngrad>(summed_terngrad(), {100});
  auto many = trial<float, summed_terngrad>(summed_terngrad(), {100});
  auto const a = one.all_reduce(x, echo_communicator<64>()), b = many.all_reduce(x, echo_communicator<256>());
  CHECK(a == b);  // all ranks draw alike here, and both numbers are powers of two
}

TEST_CASE("the received means and the residual of summed_terngrad add up to the gradients") {
  kept_of(summed_terngrad(), narrow<float>(normal_vector(100, 86)), 64);
}

TEST_CASE("damped it contracts, for feedback") {
  static_assert(pith::promises_of<pith::damped<unclipped>>.contractive);
  CHECK_NOTHROW(pith::make_state<float>(pith::seq, pith::error_feedback(pith::damped(unclipped())), {1024}));
}
