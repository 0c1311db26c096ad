// tests/golden/quantizers_test.cpp — what quantizers decode against GRACE's PyTorch code; tests/data/golden/README.md.
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/natural.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/terngrad.hpp>

#include <doctest/doctest.h>

#include "golden/reference.hpp"

using namespace support;

TEST_CASE("signs are the same, and zeros are positive") {
  for (std::string const input : {"gauss1000", "mat64x48", "zeros257"}) {
    CHECK(decoded(pith::sign(), golden("in_" + input)) == golden("det_signsgd__" + input));
    CHECK(decoded(pith::sign(), golden("in_" + input)) == golden("det_signum_step1__" + input));
  }
}

TEST_CASE("two means are the same but for the order of their sums") {
  for (std::string const input : {"gauss1000", "mat64x48"}) {
    auto const ours = decoded(pith::one_bit(), golden("in_" + input)), theirs = golden("det_onebit__" + input);
    // Ours is rounded once; theirs is a sum in float, of numbers of one sign, in no longer a row than 3072 / 8.
    for (std::size_t i = 0; i < ours.size(); ++i)
      CHECK(std::abs(ours[i] - theirs[i]) <= 384 * 0x1p-24 * std::abs(theirs[i]));
  }
  CHECK(decoded(pith::one_bit(), golden("in_zeros257")) == golden("in_zeros257"));
}

TEST_CASE("five steps of one_bit with a residual are the same but for their sums") {
  auto const g = golden("in_seq5x256"), sent = golden("seq_onebit_residual"),
             kept = golden("seq_onebit_residual_residual");
  using codec = pith::error_feedback<pith::one_bit<>>;
  auto t = trial<float, codec>(codec(pith::one_bit()), {256});
  for (int step = 0; step < 5; ++step) {
    auto const y = widen(t.roundtrip(narrow<float>(row(g, step))));
    // Four roundings per step on both sides, and their means of 256 in float, in no longer a row than 32.
    auto const bound = (8 + 32) * (step + 1) * 0x1p-24 * (largest(row(kept, step)) + largest(y));
    CHECK(largest(minus(y, row(sent, step))) <= bound);
    CHECK(largest(minus(residual_of(t.state()), row(kept, step))) <= bound);
  }
}

TEST_CASE("powers of two have the same mean and variance") {
  auto const x = golden("in_rnd64");
  auto variance = std::vector<double>(64);
  for (std::size_t i = 0; i < 64; ++i) {
    auto const size = std::abs(x[i]), below = std::exp2(std::floor(std::log2(size)));
    variance[i] = (2 * below - size) * (size - below);
  }
  agrees_with(pith::natural<8>(), "natural", variance);
  agrees_with(pith::natural<9>(), "natural", variance);
}

TEST_CASE("ternary levels of a clipped tensor have the same mean and variance") {
  auto const x = golden("in_rnd64");
  double mean = 0, squares = 0;
  for (auto const v : x) mean += v / 64, squares += v * v / 64;
  auto const scale = 2.5 * std::sqrt(squares - mean * mean);
  REQUIRE(scale < largest(x));
  auto variance = std::vector<double>(64);
  for (std::size_t i = 0; i < 64; ++i) {
    auto const clipped = std::min(std::abs(x[i]), scale);
    variance[i] = clipped * (scale - clipped);
  }
  agrees_with(pith::terngrad(), "terngrad", variance);
}
