// tests/vector_quantize/product_quantizer_test.cpp — codebooks of k-means, and runs as their nearest words.
#include <pith/codec/chain.hpp>
#include <pith/exec/par.hpp>
#include <pith/transform/hadamard.hpp>
#include <pith/vector_quantize/k_means.hpp>
#include <pith/vector_quantize/product_quantizer.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/conform.hpp"
#include "support/executed.hpp"
#include "support/reversed.hpp"

using namespace support;
using pith::codebook;
using pith::fit_codebook;
using pith::product_quantizer;

namespace {

std::vector<float> normal_floats(std::size_t n, std::uint64_t seed) { return narrow<float>(normal_vector(n, seed)); }

pith::fitted_codebook fitted(std::vector<float> const& samples, std::uint64_t width, std::uint64_t size) {
  return fit_codebook(pith::span<float const>(samples), width, size, 5);
}

template <int Bits>
double error(codebook const& words, std::vector<double> const& x) {
  return square(minus(decoded(product_quantizer<Bits>(words), x), x)) / square(x);
}

/// The words nearest to x / s, as a loop finds them.
std::vector<double> quantized(codebook const& words, std::vector<double> const& x) {
  auto const w = static_cast<std::size_t>(words.width());
  double const scale = static_cast<float>(std::sqrt(square(x) / static_cast<double>(x.size())));
  auto y = x;
  for (std::size_t first = 0; first < x.size(); first += w) {
    auto least = infinity;
    for (std::size_t word = 0; word < words.size(); ++word) {
      auto run = std::vector<double>();
      double off = 0;
      for (std::size_t k = 0; k < w; ++k) {
        auto const v = first + k < x.size() ? x[first + k] : 0;
        run.push_back(scale * static_cast<double>(words.words()[word * w + k]));
        off += (v - run[k]) * (v - run[k]);
      }
      for (std::size_t k = 0; off < least && k < w && first + k < x.size(); ++k) y[first + k] = run[k];
      least = std::min(least, off);
    }
  }
  return widen(narrow<float>(y));
}

}  // namespace

TEST_CASE("product_quantizer takes any input of any size and type") {
  conforms(product_quantizer<4>(fitted(normal_floats(4000, 1), 4, 16).words));
  conforms(product_quantizer<1>(codebook(16, std::vector<float>(32, 0.5f))));
}

TEST_CASE_TEMPLATE("five numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  auto const codec = product_quantizer<1>(codebook(2, {1, 1, -0.5, 0}));
  // The root of the mean square is 2: words are (2, 2) and (-1, 0).
  auto t = trial<In, product_quantizer<1>>(codec, {5});
  auto const payload = t.compress(of<In>({3, 1, -1, 0, 3}));
  REQUIRE(payload.size() == 8 + 4);
  CHECK(payload[0] == std::byte{0b010});
  CHECK(widen(t.decompress(payload)) == std::vector<double>{2, 2, -1, 0, 2});
}

TEST_CASE("runs become the words that a loop finds") {
  auto const words = fitted(normal_floats(6000, 2), 6, 32).words;
  for (std::size_t const n : {1u, 5u, 6u, 47u, 1000u}) {
    auto const x = widen(normal_floats(n, n + 7));
    CHECK(decoded(product_quantizer<5>(words), x) == quantized(words, x));
  }
}

TEST_CASE("the error on the fitted samples equals that of k-means and decreases with more words") {
  auto const samples = normal_floats(20'000, 3);
  double before = 1;
  auto const check = [&](auto bits) {
    constexpr int Bits = decltype(bits)::value;
    auto const made = fitted(samples, 4, std::uint64_t{1} << Bits);
    auto const lost = error<Bits>(made.words, widen(samples));
    CAPTURE(Bits);
    CHECK(std::abs(lost / made.distortion - 1) < 1e-4);  // words and scale are floats
    CHECK(lost < before);
    before = lost;
  };
  check(std::integral_constant<int, 1>());
  check(std::integral_constant<int, 2>());
  check(std::integral_constant<int, 4>());
  check(std::integral_constant<int, 6>());
  check(std::integral_constant<int, 8>());
  // A scalar quantizer of as many bits, two an element, loses 0.1175 of normal numbers at best (Max, 1960), and of four
  // numbers at once no less than the rate's bound of 2^-4.
  CHECK(before < 0.1175);
  CHECK(before > 0.0625);
}

TEST_CASE("clusters are found") {
  auto random = std::mt19937_64(4);
  auto samples = std::vector<float>();
  for (int i = 0; i < 2000; ++i) {
    auto const center = static_cast<double>(random() % 8);
    for (double const axis : {1.0, center, center * center}) {
      samples.push_back(static_cast<float>(axis + 0.001 * normal(random)));
    }
  }
  CHECK(fitted(samples, 3, 8).distortion < 1e-6);
  CHECK(fitted(samples, 3, 7).distortion > 1e-5);
}

TEST_CASE("the same samples and seed make the same words, another seed others") {
  auto const samples = normal_floats(3000, 5);
  auto const x = pith::span<float const>(samples);
  CHECK(fit_codebook(x, 3, 16, 1).words.digest() == fit_codebook(x, 3, 16, 1).words.digest());
  CHECK(fit_codebook(x, 3, 16, 1).words.digest() != fit_codebook(x, 3, 16, 2).words.digest());
}

TEST_CASE("more words than samples, and equal samples, are no harm") {
  CHECK(fitted(normal_floats(8, 6), 4, 16).distortion == doctest::Approx(0));
  CHECK(fitted(std::vector<float>(64, -3), 4, 4).distortion == doctest::Approx(0));
}

TEST_CASE("a NaN or infinite element makes the whole tensor NaN") {
  auto const codec = product_quantizer<4>(fitted(normal_floats(400, 7), 4, 16).words);
  for (double const odd : {not_a_number, infinity, -infinity}) {
    auto x = normal_vector(20, 8);
    x[3] = odd;
    for (auto const v : decoded(codec, x)) CHECK(std::isnan(v));
  }
}

TEST_CASE("blocks in another order and on threads give the same bytes") {
  auto pool = pith::thread_pool(3);
  auto const codec = product_quantizer<6>(fitted(normal_floats(4000, 9), 8, 64).words);
  for (std::uint64_t const n : {0u, 5u, 100'000u}) {
    auto const expected = executed<float>(pith::seq, codec, {n});
    CHECK(executed<float>(reversed(), codec, {n}) == expected);
    CHECK(executed<float>(pith::par(pool), codec, {n}) == expected);
  }
}

TEST_CASE("a rotation goes before it") {
  auto const codec = pith::hadamard() | product_quantizer<8>(fitted(normal_floats(20'000, 10), 4, 256).words);
  auto spike = std::vector<double>(1024);
  for (std::size_t i = 0; i < 1024; i += 256) spike[i + 77] = 16;
  CHECK(square(minus(decoded(codec, spike), spike)) < 0.25 * square(spike));
}

TEST_CASE("name() identifies the codebook, and invalid codebooks and samples are refused") {
  auto const name = product_quantizer<1>(codebook(2, {1, 1, 0, 0})).name();
  CHECK(name.rfind("product_quantizer<1>(2,", 0) == 0);
  CHECK(name != product_quantizer<1>(codebook(2, {1, 1, 0, 1})).name());
  CHECK_THROWS_WITH_AS(product_quantizer<3>(codebook::axes(4)),
                       "pith::product_quantizer<3>: the codebook must have 8 words, got 4", std::invalid_argument);
  CHECK_THROWS_WITH_AS(codebook(3, {1, 2}), "pith::codebook: words must have a positive multiple of 3 numbers, got 2",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(codebook(1, {1, static_cast<float>(infinity)}),
                       "pith::codebook: words must be finite numbers, got inf", std::invalid_argument);
  CHECK_THROWS_WITH_AS(fitted({1, 2}, 4, 2), "pith::fit_codebook: samples must have at least 4 elements, got 2",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(fitted({1, 2, 3, 4}, 4, 0), "pith::fit_codebook: size must be at least 1, got 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(fitted(std::vector<float>(8), 4, 2),
                       "pith::fit_codebook: samples must be finite and not all zero", std::invalid_argument);
}
