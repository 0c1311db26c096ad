// tests/sparsify/sidco_test.cpp — fits of tails, their stages, and how many of them a tensor learns to take.
#include <pith/sparsify/sidco.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/roundtrip.hpp"

using namespace support;
namespace options = pith::options;
using pith::magnitudes;
using pith::sidco;

namespace {

template <class C>
double ratio(C const& codec, std::vector<double> const& x) {
  return static_cast<double>(nonzeros(decoded(codec, x))) / (codec.density() * static_cast<double>(x.size()));
}

/// In the mean of five steps, when there were so many before.
template <class C>
double learnt(C const& codec, std::vector<double> const& x, int before = 40) {
  auto t = trial<float, C>(codec, {x.size()});
  auto const input = narrow<float>(x);
  for (int step = 0; step < before; ++step) t.compress(input);
  std::size_t sum = 0;
  for (int step = 0; step < 5; ++step) sum += nonzeros(widen(t.roundtrip(input)));
  return static_cast<double>(sum) / 5 / (codec.density() * static_cast<double>(x.size()));
}

}  // namespace

TEST_CASE("a density that is no share is refused before it is used") {
  for (auto const density : {0.0, -1.0, 1.5, infinity, -infinity, not_a_number})
    CHECK_THROWS_AS(sidco<>{density}, std::invalid_argument);
}

// What an exponential fit keeps of n exponential numbers is a count of about k draws, and the mean that was fitted has
// its own error, ln(n / k) / sqrt(n) of k: within 2 % or four standard deviations.
TEST_CASE("one exponential stage keeps about k of Laplace numbers") {
  auto const x = laplace_vector(2'000'000, 1);
  for (double const density : {0.3, 0.1, 0.01, 0.001}) {
    CAPTURE(density);
    CHECK(std::abs(ratio(sidco(density, options::exponential, 1), x) - 1) <
          std::max(0.02, 4 / std::sqrt(density * 2e6)));
  }
}

TEST_CASE("one exponential stage keeps too few of normal numbers, and three or five stages keep about k") {
  auto const x = normal_vector(1'000'000, 2);
  CHECK(ratio(sidco(0.1, options::exponential, 1), x) < 0.8);
  CHECK(ratio(sidco(0.01, options::exponential, 1), x) < 0.1);
  CHECK(ratio(sidco(0.001, options::exponential, 1), x) < 0.01);
  for (double const density : {0.1, 0.01, 0.001}) {
    CAPTURE(density);
    CHECK(std::abs(ratio(sidco(density, options::exponential, 3), x) - 1) < 0.1);
    CHECK(std::abs(ratio(sidco(density, options::exponential, 5), x) - 1) < 0.1);
  }
}

TEST_CASE("a gamma fit is that of gamma numbers, a Pareto one that of long tails") {
  auto random = std::mt19937_64(3);
  auto squares = std::vector<double>(500'000), long_tails = squares;
  for (auto& v : squares) v = std::pow(normal(random), 2) * (random() % 2 == 0 ? 1 : -1);  // gamma of shape 1/2
  for (auto& v : long_tails) v = 5 * (std::pow(uniform(random), -0.2) - 1);                // Pareto of shape 0.2
  for (double const density : {0.1, 0.01, 0.001}) {
    CAPTURE(density);
    // The approximate estimator of the shape is off by up to 1.5 %, and so is the tail's logarithm.
    CHECK(std::abs(ratio(sidco(density, options::gamma, 1), squares) - 1) < 0.12);
    CHECK(std::abs(ratio(sidco(density, options::pareto, 1), long_tails) - 1) < 0.12);
  }
  CHECK(ratio(sidco(0.1, options::exponential, 1), squares) > 1.2);
}

TEST_CASE_TEMPLATE("the learnt number of stages keeps the mean number of entries within a fifth of k", C, sidco<>,
                   sidco<magnitudes::pareto>, sidco<magnitudes::gamma>) {
  for (double const density : {0.1, 0.01, 0.001}) {
    CAPTURE(density);
    CHECK(std::abs(learnt(C(density), normal_vector(200'000, 4)) - 1) < 0.2);
    CHECK(std::abs(learnt(C(density), laplace_vector(200'000, 5)) - 1) < 0.2);
  }
}

TEST_CASE("every five steps there is a stage more until the number fits") {
  auto const x = normal_vector(200'000, 6);
  auto const one = ratio(sidco(0.01, options::exponential, 1), x), two = ratio(sidco(0.01, options::exponential, 2), x),
             three = ratio(sidco(0.01, options::exponential, 3), x);
  CHECK(two < 0.8);  // so that a third one is wanted
  CHECK(std::abs(three - 1) < 0.2);
  auto t = trial<float, sidco<>>(sidco(0.01), {x.size()});
  auto const input = narrow<float>(x);
  for (int step = 0; step < 20; ++step) {
    auto const expected = step < 5 ? one : step < 10 ? two : three;
    CHECK(static_cast<double>(nonzeros(widen(t.roundtrip(input)))) == doctest::Approx(2000 * expected));
  }
}

TEST_CASE("a number of stages that is said is not changed") {
  auto const x = normal_vector(50'000, 6);
  CHECK(learnt(sidco(0.01, options::exponential, 1), x, 30) ==
        doctest::Approx(ratio(sidco(0.01, options::exponential, 1), x)));
}

TEST_CASE("a fit to the survivors of another stage keeps the requested fraction of them") {
  auto const x = laplace_vector(1'000'000, 7);
  auto survivors = std::vector<double>();
  for (auto const v : decoded(sidco(0.1, options::exponential, 1), x)) {
    if (v != 0) survivors.push_back(v);
  }
  // Of a tenth a tenth: four standard deviations of 10,000 draws.
  CHECK(std::abs(static_cast<double>(nonzeros(decoded(sidco(0.1, options::exponential, 1), survivors))) / 10'000 - 1) <
        0.04);
  auto padded = survivors;  // zeros change only k
  padded.resize(10 * survivors.size());
  CHECK(std::abs(static_cast<double>(nonzeros(decoded(sidco(0.01, options::exponential, 1), padded))) / 10'000 - 1) <
        0.04);
}

TEST_CASE("there are no more stages than halving takes, and zeros change nothing") {
  auto t = trial<float, sidco<>>(sidco(0.1), {1000});
  auto const& memory = *t.state().local().of_steps.data();
  for (int step = 0; step < 40; ++step) t.compress(std::vector<float>(1000));
  CHECK(memory.more == 0);
  for (int step = 0; step < 40; ++step) t.compress(std::vector<float>(1000, 2));  // as many as there is room for
  CHECK(memory.more == 3);
}
