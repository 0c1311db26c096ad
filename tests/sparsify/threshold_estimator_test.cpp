// tests/sparsify/threshold_estimator_test.cpp — what holds for every sparsifier that estimates its threshold.
#include <pith/exec/par.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/redsync.hpp>
#include <pith/sparsify/sidco.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

#include "support/conform.hpp"
#include "support/executed.hpp"
#include "support/reversed.hpp"

using namespace support;
using pith::gaussian_k;
using pith::redsync;
using exponential = pith::sidco<>;
using pareto = pith::sidco<pith::magnitudes::pareto>;
using gamma_then_pareto = pith::sidco<pith::magnitudes::gamma>;

#define ESTIMATORS redsync, exponential, pareto, gamma_then_pareto, gaussian_k

namespace {

double largest(std::vector<double> const& x) {
  double most = 0;
  for (auto const v : x) most = std::max(most, std::abs(v));
  return most;
}

/// As many as there is room for, as they are, none smaller than one that is left out, and one of the largest.
template <class C>
void keeps_the_largest(C const& codec, std::vector<double> const& x) {
  auto const y = decoded(codec, x);
  auto const room = codec.capacity({x.size()});
  double least = infinity, max_left = 0;
  std::size_t changed = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    changed += y[i] != x[i] && y[i] != 0 ? 1 : 0;
    if (y[i] != 0) least = std::min(least, std::abs(x[i]));
    if (y[i] == 0) max_left = std::max(max_left, std::abs(x[i]));
  }
  CHECK(changed == 0);
  CHECK(nonzeros(y) <= room);
  CHECK(largest(y) == largest(x));
  CHECK((nonzeros(y) == room ? least >= max_left : least > max_left));
}

std::vector<double> with(std::vector<double> x, std::size_t at, double value) {
  x[at] = value;
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("estimators take any input of any size and type", C, ESTIMATORS) {
  conforms(C(0.1));
  conforms(C(1));
  conforms(C(1e-9));
  conforms(C(0.02), {{8192}, {16384}, {16385}, {40000}});
}

TEST_CASE_TEMPLATE("estimators keep the largest elements of any tensor", C, ESTIMATORS) {
  for (std::size_t const n : {1u, 2u, 7u, 100u, 2049u, 16385u, 40000u}) {
    auto x = widen(narrow<float>(normal_vector(n, n)));
    for (double const density : {0.001, 0.05, 0.3, 1.0}) {
      CAPTURE(n);
      CAPTURE(density);
      auto const codec = C(density);
      keeps_the_largest(codec, x);
      keeps_the_largest(codec, with(x, n / 2, -0x1p100));
      keeps_the_largest(codec, with(std::vector<double>(n), n - 1, 0x1p-140));
      keeps_the_largest(codec, std::vector<double>(n, -3));
      keeps_the_largest(codec, with(std::vector<double>(n, 1), n / 3, 2));
      for (auto& v : x) v = std::round(2 * v) / 2;  // ties
      keeps_the_largest(codec, x);
    }
  }
}

TEST_CASE_TEMPLATE("zeros are never sent", C, ESTIMATORS) {
  CHECK(nonzeros(decoded(C(0.5), std::vector<double>(1000))) == 0);
  auto t = trial<float, C>(C(0.5), {1000});
  auto const payload = t.compress(std::vector<float>(1000));
  CHECK(payload == std::vector<std::byte>(payload.size()));
}

TEST_CASE_TEMPLATE("a tensor of few numbers is sent whole", C, ESTIMATORS) {
  auto x = std::vector<double>(5000);
  for (std::size_t i = 0; i < 40; ++i) x[100 * i + 7] = i % 2 == 0 ? 1e-9 : -3.0;
  x = widen(narrow<float>(x));
  CHECK(decoded(C(0.01), x) == x);
}

TEST_CASE_TEMPLATE("estimators keep about as many normal numbers as the density requests", C, ESTIMATORS) {
  auto const n = std::size_t{200'000};
  auto const x = narrow<float>(normal_vector(n, 3));
  for (double const density : {0.2, 0.01}) {
    auto t = trial<float, C>(C(density), {n});
    for (int step = 0; step < 20; ++step) t.roundtrip(x);  // in which sidco learns how many stages it takes
    auto const ratio = static_cast<double>(nonzeros(widen(t.roundtrip(x)))) / (density * static_cast<double>(n));
    CAPTURE(density);
    CHECK(ratio > 0.66);
    CHECK(ratio < 2);
  }
}

TEST_CASE_TEMPLATE("estimators with a larger density keep at least as many entries", C, ESTIMATORS) {
  auto const x = normal_vector(30'000, 9);
  std::size_t before = 0;
  for (double const density : {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.9}) {
    auto const now = nonzeros(decoded(C(density), x));
    CAPTURE(density);
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE_TEMPLATE("a factor changes nothing", C, ESTIMATORS) {
  auto const x = widen(narrow<float>(normal_vector(20'000, 10)));
  auto y = decoded(C(0.02), x), scaled = x;
  for (auto& v : scaled) v *= 0x1p-60;
  for (auto& v : y) v *= 0x1p-60;
  // The logarithms of gamma's fit are rounded in other places.
  if constexpr (!std::same_as<C, gamma_then_pareto>) CHECK(decoded(C(0.02), scaled) == y);
  for (auto& v : scaled) v = -v;
  for (auto& v : y) v = -v;
  if constexpr (!std::same_as<C, gamma_then_pareto>) CHECK(decoded(C(0.02), scaled) == y);
}

TEST_CASE_TEMPLATE("NaN and infinity are kept and do not change the estimate", C, ESTIMATORS) {
  auto const x = widen(narrow<float>(normal_vector(1000, 4)));
  auto odd = x;
  odd[10] = not_a_number, odd[20] = -infinity;
  auto without = x;
  without[10] = without[20] = 0;
  auto const y = decoded(C(0.1), odd), z = decoded(C(0.1), without);
  CHECK(std::isnan(y[10]));
  CHECK(y[20] == -infinity);
  for (std::size_t i = 30; i < 900; ++i) CHECK(y[i] == z[i]);
}

TEST_CASE_TEMPLATE("blocks in another order and on threads give the same bytes", C, ESTIMATORS) {
  auto pool = pith::thread_pool(3);
  for (std::uint64_t const n : {0u, 5u, 20'000u, 150'000u}) {
    auto const expected = executed<float>(pith::seq, C(0.01), {n});
    CHECK(executed<float>(reversed(), C(0.01), {n}) == expected);
    CHECK(executed<float>(pith::par(pool), C(0.01), {n}) == expected);
  }
}

TEST_CASE_TEMPLATE("room in the shape is kept", C, ESTIMATORS) {
  auto const x = narrow<float>(normal_vector(1000, 5));
  for (std::uint64_t const room : {0u, 1u, 9u, 60u, 150u}) {
    auto t = trial<float, C>(C(0.1), pith::shape{1000, 1, room});
    auto const y = widen(t.roundtrip(x));
    CAPTURE(room);
    CHECK(nonzeros(y) <= room);
    if (room > 0) CHECK(largest(y) == largest(widen(x)));
    CHECK(C(0.1).delta({1000, 1, room}) == (room == 0 ? 0 : 0.001));
  }
}

TEST_CASE_TEMPLATE("a count that no encoder writes is no more than the capacity", C, ESTIMATORS) {
  auto t = trial<float, C>(C(0.25), {16});
  auto payload = t.compress(narrow<float>(normal_vector(16, 6)));
  auto const values = pith::detail::align_up(4 * C(0.25).capacity({16}), 8);
  auto const most = static_cast<std::uint32_t>(C(0.25).capacity({16}));
  std::memcpy(payload.data() + values, &most, 4);
  auto const expected = t.decompress(payload);
  for (std::uint32_t const count : {8u, 16u, 0xffffffffu}) {
    std::memcpy(payload.data() + values, &count, 4);
    CHECK(t.decompress(payload) == expected);
  }
}

TEST_CASE_TEMPLATE("the decoded values and the residual add up to the gradients", C, ESTIMATORS) {
  auto const n = std::size_t{500};
  auto t = trial<double, pith::error_feedback<C>>(pith::error_feedback(C(0.05)), {n});
  auto random = std::mt19937_64(42);
  auto total = std::vector<double>(n), sum = total;
  for (int step = 0; step < 60; ++step) {
    auto g = std::vector<double>(n);
    if (step < 20)
      for (auto& v : g) v = static_cast<double>(random() % 17) / 16 - 0.5;  // exact sums
    auto const sent = t.roundtrip(g);
    for (std::size_t i = 0; i < n; ++i) total[i] += g[i], sum[i] += sent[i];
  }
  auto& residual = std::get<1>(t.state().local().each).residual;
  for (std::size_t i = 0; i < n; ++i) CHECK(sum[i] + residual.data()[i] == total[i]);
  CHECK(nonzeros(std::vector<double>(residual.data(), residual.data() + n)) < n / 2);
}

TEST_CASE("name() states the parameters, capacity() and delta() follow from them, and invalid arguments are refused") {
  CHECK(redsync(0.01).name() == "redsync(0.01)");
  CHECK(gaussian_k(0.01).name() == "gaussian_k(0.01)");
  CHECK(gaussian_k(0.01, pith::correction::fine).at(0.5).name() == "gaussian_k(0.5,fine)");
  CHECK(exponential(0.01).name() == "sidco(0.01)");
  CHECK(exponential(0.01, {}, 2).name() == "sidco(0.01,exponential,2)");
  CHECK(pareto(0.01).name() == "sidco(0.01,pareto)");
  CHECK(gamma_then_pareto(0.01, {}, 3).at(0.5).name() == "sidco(0.5,gamma,3)");
  CHECK(redsync(0.1).capacity({100}) == 19);
  CHECK(redsync(0.9).capacity({100}) == 100);
  CHECK(redsync(0.001).capacity({100}) == 1);
  CHECK(redsync(0.1).delta({0}) == 1);
  CHECK(redsync(0.1).delta({50}) == 0.02);
  CHECK_THROWS_WITH_AS(redsync(0), "pith::redsync: density must be in (0, 1], got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(gaussian_k(2), "pith::gaussian_k: density must be in (0, 1], got 2", std::invalid_argument);
  CHECK_THROWS_WITH_AS(exponential(-1), "pith::sidco: density must be in (0, 1], got -1", std::invalid_argument);
  CHECK_THROWS_WITH_AS(exponential(0.1, {}, 33), "pith::sidco: stages must be at most 32, got 33",
                       std::invalid_argument);
}
