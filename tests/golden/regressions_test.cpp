// tests/golden/regressions_test.cpp — what GRACE gets wrong, where no test beside the method says so. All of them:
//
//     grep -rn "regression against the reference" tests
#include <pith/collective/two_shot.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/comparison/sketch_ml.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/quantize/terngrad.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "support/group.hpp"

using namespace support;

namespace {

/// What rank 0 receives of an exchange by ranks that hold these.
template <class C>
std::vector<double> received(C const& codec, std::vector<std::vector<float>> const& gradients) {
  auto ranks = group<float, C>(codec, {gradients[0].size()}, static_cast<unsigned>(gradients.size()));
  return widen(ranks.all_reduce(gradients)[0]);
}

/// The first payload of a tensor.
template <class C>
std::vector<std::byte> payload_of(C const& codec, std::vector<float> const& x, pith::tensor_id owner) {
  return trial<float, C>(codec, {x.size()}, owner).compress(x);
}

std::vector<float> const gradient = narrow<float>(normal_vector(1000, 12));

}  // namespace

// ---- communicators --------------------------------------------------------------------------------------------------

TEST_CASE("regression against the reference: entries of ranks that keep others are not added up as if they were one") {
  CHECK(received(pith::top_k(0.25), {of({0, 4, 1, 0}), of({0, 1, 0, -6})}) == std::vector<double>{0, 2, 0, -3});
}

TEST_CASE("regression against the reference: an all-to-all of a tensor that ranks do not divide holds no garbage") {
  auto const codec = pith::two_shot(pith::terngrad(), pith::terngrad());
  for (std::size_t const n : {1u, 5u, 10u, 257u}) {
    CHECK(received(codec, {3, std::vector<float>(n, 0.75f)}) == std::vector<double>(n, 0.75));
  }
}

TEST_CASE("regression against the reference: a step in which no rank sends anything does not hang") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const codec = [](pith::tensor_spec const&) { return pith::threshold(1); };
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", {9}}}, codec,
                                               {.seed = 0, .gather_mode = pith::gather::exact});
    auto g = std::vector<float>(9, 0.5f);
    exchange.all_reduce_mean(g);
    REQUIRE(g == std::vector<float>(9));
  });
}

// ---- memories -------------------------------------------------------------------------------------------------------

TEST_CASE("regression against the reference: signs with a scale are averaged over ranks and not added up") {
  auto const codec = pith::error_feedback(pith::scaled_sign(), pith::ef_sign(0.5));
  CHECK(received(codec, {of({2, -2}), of({4, 4})}) == std::vector<double>{3, 1});
}

TEST_CASE_TEMPLATE("regression against the reference: the majority's signs are not divided by the number of ranks", C,
                   pith::sign, pith::summed_sign) {
  CHECK(received(C(), {of({1, -1, -3}), of({2, -2, 5}), of({-1, -1, -1})}) == std::vector<double>{1, -1, -1});
}

// ---- random numbers -------------------------------------------------------------------------------------------------

TEST_CASE_TEMPLATE("regression against the reference: ranks that start together do not round by the same numbers", C,
                   pith::qsgd<8>, pith::terngrad<>, pith::natural<8>) {
  CHECK(payload_of(C(), gradient, {1, 2, 0}) != payload_of(C(), gradient, {1, 2, 1}));
}

TEST_CASE("regression against the reference: tensors whose names are anagrams do not send the same entries") {
  auto comm = pith::self_communicator();
  auto const codec = [](pith::tensor_spec const&) { return pith::random_k(0.1); };
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"ab", {500}}, {"ba", {500}}}, codec);
  auto g = std::vector<float>(1000, 1.0f);
  exchange.all_reduce_mean(g);
  CHECK(std::vector<float>(g.begin(), g.begin() + 500) != std::vector<float>(g.begin() + 500, g.end()));
}

TEST_CASE("regression against the reference: the order in which a rank compresses its tensors changes no entry") {
  auto a = trial<float, pith::random_k<>>(pith::random_k(0.1), {1000}, {1, 0, 0});
  auto b = trial<float, pith::random_k<>>(pith::random_k(0.1), {1000}, {1, 1, 0});
  auto const first = a.compress(gradient), second = b.compress(gradient);
  CHECK(payload_of(pith::random_k(0.1), gradient, {1, 1, 0}) == second);
  CHECK(payload_of(pith::random_k(0.1), gradient, {1, 0, 0}) == first);
}

TEST_CASE("regression against the reference: drawing entries does not set back the program's own random numbers") {
  std::srand(5);
  auto const undisturbed = std::rand();
  std::srand(5);
  payload_of(pith::random_k(0.1), gradient, {1, 0, 0});
  CHECK(std::rand() == undisturbed);
}

// ---- compressors ----------------------------------------------------------------------------------------------------

TEST_CASE("regression against the reference: a byte has room for the level of an element that is the norm") {
  auto t = trial<float, pith::qsgd<8>>(pith::qsgd<8>(127, 0), {1});
  // One rounding up of 16 bits and one of 1 in 127 levels.
  for (int step = 0; step < 20'000; ++step) REQUIRE(std::abs(t.roundtrip({0.7f})[0] - 0.7f) <= 0.7f / 126);
}

TEST_CASE("regression against the reference: eight bits of 2^-10 to 2^-6 are not up to eight times too large") {
  for (double const x : {0x1p-10, 0x1.8p-9, 0x1.fp-7}) {
    CHECK(decoded(pith::inceptionn(), {x})[0] == 0x1p-7);
    CHECK(std::abs(decoded(pith::inceptionn(pith::byte_field::repaired), {x})[0] - x) < 0x1p-12);
  }
}

TEST_CASE("regression against the reference: the k-th largest is kept although the next one comes before it") {
  CHECK(decoded(pith::top_k(0.67), {2, 5, 3}) == std::vector<double>{0, 5, 3});
}

TEST_CASE("regression against the reference: one of 256 buckets takes a byte and not two") {
  CHECK(pith::payload_bytes<float>(pith::sketch_ml<8>(), {1000}) == 1000 + 256 * sizeof(float));
}

TEST_CASE("regression against the reference: four symbols of two bits take no byte of padding") {
  CHECK(pith::value_bytes<pith::packed<2>>(4) == 1);
  CHECK(pith::value_bytes<pith::packed<2>>(5) == 2);
}

TEST_CASE("regression against the reference: low-rank factors are averaged over ranks and not added up") {
  auto ranks = group<float, pith::power_sgd>(pith::power_sgd(1), {64, 8}, 4);
  auto const mean = ranks.all_reduce({4, std::vector<float>(64, 0.75f)})[3];
  // Each entry of either factor is a sum of 8 products, and is rounded a few times more.
  for (auto const v : mean) CHECK(std::abs(v - 0.75f) <= 32 * 0x1p-24f);
}

TEST_CASE("regression against the reference: decoding a low rank once more advances no momentum") {
  auto const x = narrow<float>(normal_vector(64, 13));
  auto once = trial<float, pith::power_sgd>(pith::power_sgd(1), {64, 8});
  auto twice = trial<float, pith::power_sgd>(pith::power_sgd(1), {64, 8});
  auto const payload = twice.compress(x);
  CHECK(twice.decompress(payload) == twice.decompress(payload));
  CHECK(once.roundtrip(x) == twice.decompress(payload));
  CHECK(once.roundtrip(x) == twice.roundtrip(x));
}

TEST_CASE("regression against the reference: the kernel of a convolution of one pixel is compressed as its matrix") {
  CHECK(pith::payload_bytes<float>(pith::power_sgd(1), {64 * 64, 64}) == (64 + 64) * sizeof(float));
}
