// tests/sparsify/random_k_test.cpp — entries that all ranks draw alike, or each its own.
#include <pith/comm/threads.hpp>
#include <pith/sparsify/random_k.hpp>

#include <doctest/doctest.h>

#include <numeric>
#include <stdexcept>

#include "support/conform.hpp"

using namespace support;
using pith::random_k;
using unbiased_k = pith::random_k<pith::scaling::unbiased>;
using own_k = pith::random_k<pith::scaling::none, pith::drawing::own>;
using own_unbiased_k = pith::random_k<pith::scaling::unbiased, pith::drawing::own>;

namespace {

/// 1, 2, 3, ... so that a value identifies its index.
std::vector<float> numbered(std::size_t n) {
  auto x = std::vector<float>(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

std::vector<std::size_t> indices_of(std::vector<float> const& y) {
  auto indices = std::vector<std::size_t>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] != 0) indices.push_back(i);
  }
  return indices;
}

}  // namespace

TEST_CASE("random_k takes any input of any size and type") {
  conforms(random_k(0.1));
  conforms(random_k(1));
  conforms(random_k(1e-9));
  conforms(unbiased_k(0.1));
  conforms(own_k(0.1));
}

TEST_CASE("one index is drawn from each stratum") {
  for (std::size_t const n : {1u, 2u, 10u, 97u, 1000u}) {
    for (double const density : {0.01, 0.25, 0.4, 0.77, 1.0}) {
      CAPTURE(n);
      CAPTURE(density);
      auto t = trial<float, random_k<>>(random_k(density), {n});
      auto const k = random_k(density).kept(n);
      for (int step = 0; step < 20; ++step) {
        auto const kept = indices_of(t.roundtrip(numbered(n)));
        REQUIRE(kept.size() == k);
        for (std::size_t j = 0; j < k; ++j) {
          CHECK(kept[j] >= j * n / k);
          CHECK(kept[j] < (j + 1) * n / k);
        }
      }
    }
  }
}

TEST_CASE("the values travel in order of their indices and nothing else does") {
  auto t = trial<float, random_k<>>(random_k(0.25), {40});
  auto const payload = t.compress(numbered(40));
  auto const kept = indices_of(t.decompress(payload));
  REQUIRE(payload.size() == 10 * sizeof(float));
  for (std::size_t j = 0; j < 10; ++j) {
    CHECK(reinterpret_cast<float const*>(payload.data())[j] == static_cast<float>(kept[j] + 1));
  }
}

// GRACE draws with replacement, so that values are lost, and up to n inclusive.
TEST_CASE_TEMPLATE("regression against the reference: indices are not drawn twice, nor n itself", C, random_k<>,
                   own_k) {
  auto t = trial<float, C>(C(0.5), {100});
  for (int step = 0; step < 50; ++step) CHECK(indices_of(t.roundtrip(numbered(100))).size() == 50);
  CHECK(trial<float, C>(C(1), {33}).roundtrip(numbered(33)) == numbered(33));
}

TEST_CASE("every index of a stratum is drawn equally often and strata are independent") {
  auto t = trial<float, random_k<>>(random_k(0.2), {10});
  int const steps = 20000;
  double first[5] = {}, both[5][5] = {};
  for (int step = 0; step < steps; ++step) {
    auto const kept = indices_of(t.roundtrip(numbered(10)));
    ++first[kept[0]];
    ++both[kept[0]][kept[1] - 5];
  }
  auto const five_sigma = [&](double p) { return 5 * std::sqrt(p * (1 - p) * steps); };
  for (int i = 0; i < 5; ++i) {
    CHECK(std::abs(first[i] - steps / 5.0) <= five_sigma(1 / 5.0));
    for (int j = 0; j < 5; ++j) CHECK(std::abs(both[i][j] - steps / 25.0) <= five_sigma(1 / 25.0));
  }
}

TEST_CASE("all ranks draw alike and steps and tensors do not") {
  auto const x = numbered(1000);
  auto const drawn = [&](pith::tensor_id owner) {
    return indices_of(trial<float, random_k<>>(random_k(0.1), {1000}, owner).roundtrip(x));
  };
  CHECK(drawn({1, 2, 0}) == drawn({1, 2, 7}));
  CHECK(drawn({1, 2, 0}) != drawn({1, 3, 0}));
  CHECK(drawn({1, 2, 0}) != drawn({2, 2, 0}));
  auto t = trial<float, random_k<>>(random_k(0.1), {1000});
  CHECK(t.roundtrip(x) != t.roundtrip(x));
}

TEST_CASE("random_k with own draws keeps different entries on different ranks and equal ones on the same rank") {
  auto const x = numbered(1000);
  auto const drawn = [&](std::uint16_t rank) {
    return indices_of(trial<float, own_k>(own_k(0.1), {1000}, {1, 2, rank}).roundtrip(x));
  };
  CHECK(drawn(0).size() == 100);
  CHECK(drawn(0) == drawn(0));
  CHECK(drawn(0) != drawn(7));
}

TEST_CASE("an exchange adds up the entries that each rank drew") {
  auto const codec = own_unbiased_k(0.25);
  auto const dims = pith::shape{100};
  auto expected = std::vector<float>(100);
  for (std::uint16_t rank = 0; rank < 3; ++rank) {
    auto const y = trial<float, own_unbiased_k>(codec, dims, {9, 2, rank}).roundtrip(numbered(100));
    for (std::size_t i = 0; i < 100; ++i) expected[i] += y[i];  // whole numbers: exact
  }
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto const rank = static_cast<std::uint16_t>(comm.rank());
    auto mean = trial<float, own_unbiased_k>(codec, dims, {9, 2, rank}).all_reduce(numbered(100), comm);
    for (std::size_t i = 0; i < 100; ++i) {
      REQUIRE(std::abs(mean[i] - expected[i] / 3) <= 2 * 0x1p-24f * mean[i]);
    }
  });
}

TEST_CASE_TEMPLATE("unbiased random_k multiplies by the width of the stratum", In, float, double, pith::half,
                   pith::bfloat16) {
  auto t = trial<In, unbiased_k>(unbiased_k(0.3), {10});  // strata of 3, 3 and 4
  auto const y = widen(t.roundtrip(std::vector<In>(10, pith::element_cast<In>(-2))));
  double sums[3] = {};
  for (std::size_t i = 0; i < 10; ++i) sums[i < 3 ? 0 : i < 6 ? 1 : 2] += y[i];
  CHECK(sums[0] == -6);
  CHECK(sums[1] == -6);
  CHECK(sums[2] == -8);
}

TEST_CASE("delta and omega are those of the widest stratum") {
  CHECK(random_k(0.3).delta({10}) == 0.25);
  CHECK(unbiased_k(0.3).omega({10}) == 3);
  CHECK(random_k(1).delta({10}) == 1);
  CHECK(random_k(0.3).delta({0}) == 1);
  CHECK(unbiased_k(0.3).omega({0}) == 0);
}

TEST_CASE("a NaN that is not drawn does not travel") {
  auto t = trial<float, random_k<>>(random_k(0.5), {2});
  unsigned seen = 0;
  for (int step = 0; step < 100; ++step) {
    auto const y = t.roundtrip(of({1, not_a_number}));
    CHECK((y[0] == 1 || (y[0] == 0 && std::isnan(y[1]))));
    seen += std::isnan(y[1]);
  }
  CHECK(seen > 20);
  CHECK(seen < 80);
}

TEST_CASE("a density that cannot be is refused") {
  CHECK_THROWS_WITH_AS(random_k(0), "pith::random_k: density must be in (0, 1], got 0", std::invalid_argument);
  CHECK(random_k(0.1).name() == "random_k(0.1)");
  CHECK(unbiased_k(0.1).name() == "random_k(0.1,unbiased)");
  CHECK(own_k(0.1).name() == "random_k(0.1,none,own)");
  CHECK(own_unbiased_k(0.1).name() == "random_k(0.1,unbiased,own)");
  CHECK(random_k(0.1).at(0.5).kept(10) == 5);
}
