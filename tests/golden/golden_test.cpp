// tests/golden/golden_test.cpp — decoded values against those of GRACE's PyTorch code; tests/data/golden/README.md.
#include <pith/core/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

#include "support/golden.hpp"
#include "support/roundtrip.hpp"

using namespace support;

namespace {

/// Row `step` of five.
std::vector<double> row(std::vector<double> const& all, int step) {
  auto const begin = all.begin() + step * 256;
  return {begin, begin + 256};
}

double largest(std::vector<double> const& x) {
  double most = 0;
  for (auto const v : x) most = std::max(most, std::abs(v));
  return most;
}

template <class State>
std::vector<double> residual_of(State& state) {
  auto const view = std::get<1>(state.local().each).residual.view();
  return widen(std::vector<float>(view.begin(), view.end()));
}

/// Mean and variance over `draws` steps of `codec` on rnd64 against those of the reference, which had 2,000 draws: both
/// means have an error of sqrt(variance / draws), each variance one of its own, of kurtosis 1 / (p (1 - p)) at worst.
template <class C>
void agrees_with(C const& codec, std::string const& name, std::vector<double> const& variance) {
  CAPTURE(name);
  int const draws = 4000;
  auto const x = golden("in_rnd64");
  auto t = trial<float, C>(codec, {64});
  auto mean = std::vector<double>(64), square = mean;
  for (int step = 0; step < draws; ++step) {
    auto const y = widen(t.roundtrip(narrow<float>(x)));
    for (std::size_t i = 0; i < 64; ++i) mean[i] += y[i] / draws, square[i] += y[i] * y[i] / draws;
  }
  auto const their_mean = golden("rnd_" + name + "_mean"), their_variance = golden("rnd_" + name + "_var");
  double ours = 0, theirs = 0, exact = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    auto const error = std::sqrt(variance[i] * (1.0 / draws + 1.0 / 2000));
    // An event of a probability below 10 / 2000 may not have been seen by either: its part of the mean is then lost.
    CHECK(std::abs(mean[i] - their_mean[i]) <=
          5 * error + 10.0 / 2000 * std::sqrt(variance[i]) + 1e-4 * std::abs(x[i]));
    ours += square[i] - mean[i] * mean[i], theirs += their_variance[i], exact += variance[i];
  }
  // 64 independent elements, of which no fewer than a quarter matter: 5 sqrt(kurtosis / (16 draws)) with kurtosis 8.
  CHECK(std::abs(ours - exact) <= 5 * std::sqrt(8.0 / (16 * draws)) * exact);
  CHECK(std::abs(theirs - exact) <= 5 * std::sqrt(8.0 / (16 * 2000)) * exact);
}

/// (norm / s)^2 p (1 - p), p the fraction of s |x| / norm, with a norm a bucket.
std::vector<double> qsgd_variance(std::vector<double> const& x, double levels, std::size_t bucket) {
  auto variance = std::vector<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    double squares = 0;
    for (auto j = i / bucket * bucket; j < (i / bucket + 1) * bucket; ++j) squares += x[j] * x[j];
    auto const unit = std::sqrt(squares) / levels;
    auto const p = std::abs(x[i]) / unit - std::floor(std::abs(x[i]) / unit);
    variance[i] = unit * unit * p * (1 - p);
  }
  return variance;
}

}  // namespace

TEST_CASE("arrays are read and what is none is refused") {
  auto const m = read_npy(golden_path("in_mat64x48"));
  CHECK(m.dims == std::vector<std::uint64_t>{64, 48});
  CHECK(m.values.size() == 64 * 48);
  CHECK_THROWS_WITH_AS(read_npy("no such file"), "no such file: cannot be opened", std::runtime_error);
  auto const readme = std::string(PITH_TEST_DATA) + "/golden/README.md";
  CHECK_THROWS_WITH_AS(read_npy(readme), (readme + ": is no .npy file").c_str(), std::runtime_error);
}

TEST_CASE("halves are the same") {
  for (std::string const input : {"gauss1000", "mat64x48"}) {
    CHECK(decoded(pith::cast<pith::half>(), golden("in_" + input)) == golden("det_fp16__" + input));
  }
  CHECK(decoded(pith::cast<pith::half>(), golden("in_zeros257")) == golden("in_zeros257"));
}

TEST_CASE("scaled signs are the same but for the order of a sum") {
  for (std::string const input : {"gauss1000", "mat64x48"}) {
    auto const ours = decoded(pith::scaled_sign(), golden("in_" + input)), theirs = golden("det_efsignsgd__" + input);
    // Ours is rounded once; theirs is a sum in float, in a tree of eight lanes or more: log2(3072) + 3 roundings at
    // most
    // to expect, and no more than in a row of 3072 / 8.
    for (std::size_t i = 0; i < ours.size(); ++i)
      CHECK(std::abs(ours[i] - theirs[i]) <= 384 * 0x1p-24 * std::abs(theirs[i]));
  }
  CHECK(decoded(pith::scaled_sign(), golden("in_zeros257")) == golden("in_zeros257"));
}

TEST_CASE("the largest entries are the same") {
  for (std::string const input : {"gauss1000", "mat64x48"}) {
    CHECK(decoded(pith::top_k(0.01), golden("in_" + input)) == golden("det_topk_0.01__" + input));
    CHECK(decoded(pith::top_k(0.3), golden("in_" + input)) == golden("det_topk_0.3__" + input));
  }
  CHECK(decoded(pith::top_k(0.01), golden("in_zeros257")) == golden("in_zeros257"));
}

TEST_CASE("one power step from a given start is the same") {
  auto const m = golden("in_mat64x48");
  for (unsigned const rank : {1u, 2u, 4u}) {
    CAPTURE(rank);
    auto t = trial<float, pith::power_sgd>(pith::power_sgd(rank), {m.size(), 64});
    auto const start = read_npy(golden_path("in_powersgd_q_r" + std::to_string(rank)));
    auto& q = t.state().agreed().q;
    REQUIRE(q.size() == start.values.size());
    std::memcpy(q.data(), start.values.data(), q.size_bytes());
    auto const ours = widen(t.all_reduce(narrow<float>(m)));
    auto const theirs = golden("det_powersgd_r" + std::to_string(rank) + "__mat64x48");
    // They make Q orthonormal first, which changes P's columns but not their span: M Q differs by 48 roundings a
    // column,
    // and its condition, below 100 here, multiplies them; then sums of 64 and `rank` products on both sides.
    auto const bound = (100 * 48 + 64 + rank) * 2 * 0x1p-24;
    CHECK(std::sqrt(square(minus(ours, theirs))) <= bound * std::sqrt(square(m)));
  }
}

TEST_CASE("the zero matrix decodes to zero where the reference decodes to NaN") {
  auto t = trial<float, pith::power_sgd>(pith::power_sgd(2), {64 * 48, 64});
  CHECK(t.all_reduce(std::vector<float>(64 * 48)) == std::vector<float>(64 * 48));
}

TEST_CASE("stochastic levels have the same mean and variance") {
  auto const x = golden("in_rnd64");
  agrees_with(pith::qsgd<8>(127, 0), "qsgd_s127", qsgd_variance(x, 127, 64));
  agrees_with(pith::qsgd<8>(64, 0), "qsgd_s64", qsgd_variance(x, 64, 64));
  agrees_with(pith::qsgd<4>(4, 0), "qsgd_s4", qsgd_variance(x, 4, 64));
  agrees_with(pith::qsgd<10>(256, 0), "qsgd_s256", qsgd_variance(x, 256, 64));
  agrees_with(pith::qsgd<4>(4, 16), "qsgd_bucket16_s4", qsgd_variance(x, 4, 16));
}

TEST_CASE("random entries have the same mean and variance") {
  // One of each four is kept: the variance is x^2 / 4 3 / 4 by strata as by a permutation.
  auto const x = golden("in_rnd64");
  auto variance = std::vector<double>(64);
  for (std::size_t i = 0; i < 64; ++i) variance[i] = x[i] * x[i] * 0.25 * 0.75;
  agrees_with(pith::random_k(0.25), "randomk_0.25", variance);
}

TEST_CASE("power iteration from random starts has the same mean error") {
  // Their 2,000 draws left this part of |x|^2: 0.7563 (rank 1) and 0.5447 (rank 2). Ours draws from a bell, not a
  // normal.
  auto const x = golden("in_rnd64");
  for (auto const& [rank, theirs] : {std::pair{1u, 0.75629}, std::pair{2u, 0.54468}}) {
    auto t = trial<float, pith::power_sgd>(pith::power_sgd(rank), {64, 8});
    double mean = 0, squares = 0;
    int const draws = 2000;
    for (int step = 0; step < draws; ++step) {
      auto const e = square(minus(widen(t.roundtrip(narrow<float>(x))), x)) / square(x);
      mean += e / draws, squares += e * e / draws;
    }
    // Five standard errors of each side, taking their spread to be ours; 0.01 for the shape of the bell.
    CHECK(std::abs(mean - theirs) <= 5 * std::sqrt(2 * (squares - mean * mean) / draws) + 0.01);
  }
}

TEST_CASE("five steps of top_k with a residual are the same") {
  auto const g = golden("in_seq5x256"), sent = golden("seq_topk_0.05_residual"),
             kept = golden("seq_topk_0.05_residual_residual");
  auto t = trial<float, pith::error_feedback<pith::top_k<>>>(pith::error_feedback(pith::top_k(0.05)), {256});
  for (int step = 0; step < 5; ++step) {
    CHECK(widen(t.roundtrip(narrow<float>(row(g, step)))) == row(sent, step));
    CHECK(residual_of(t.state()) == row(kept, step));
  }
}

TEST_CASE("five steps of scaled_sign with a learning rate are right where the reference errs in its first") {
  // p = e + lr g is encoded and e = p - D(C(p)); what is decoded is divided by lr. The reference forgets lr in its
  // first
  // step (p = g), so that its first update is 1 / lr too large and its residual too: it is no target. Here lr g is
  // encoded
  // from the start, and an oracle in double says what must come out.
  auto const g = golden("in_seq5x256"), theirs = golden("seq_efsignsgd_lr0.1"),
             their_residual = golden("seq_efsignsgd_lr0.1_residual");
  using codec = pith::error_feedback<pith::scaled_sign>;
  auto t = trial<float, codec>(codec(pith::scaled_sign(), pith::residual(1, 0.1)), {256});
  auto e = std::vector<double>(256);
  auto const lr = static_cast<double>(0.1f);
  for (int step = 0; step < 5; ++step) {
    auto p = e;
    double scale = 0;
    auto const x = row(g, step);
    for (std::size_t i = 0; i < 256; ++i) p[i] += lr * x[i], scale += std::abs(p[i]) / 256;
    auto const y = widen(t.roundtrip(narrow<float>(x)));
    // Each step rounds lr g, p and e once each; none is above the largest p and scale.
    auto const bound = 3 * (step + 1) * 0x1p-24 * (largest(p) + scale);
    for (std::size_t i = 0; i < 256; ++i) {
      auto const sign = p[i] < 0 ? -1 : 1;
      CHECK(std::abs(y[i] - sign * scale) <= bound);
      e[i] = p[i] - sign * scale;
    }
    auto const kept = residual_of(t.state());
    CHECK(largest(minus(kept, e)) <= bound);
    // They agree in nothing but the first signs: theirs is scaled by 1 / lr twice.
    if (step == 0) {
      for (std::size_t i = 0; i < 256; ++i) CHECK(std::abs(theirs[i] - 100 * y[i]) <= 1e-4 * std::abs(theirs[i]));
      for (std::size_t i = 0; i < 256; ++i) CHECK(std::abs(their_residual[i] - 10 * kept[i]) <= 1e-5 * largest(x));
    }
  }
}

TEST_CASE("from its second step on the reference is reproduced when its first residual is given") {
  auto const g = golden("in_seq5x256"), theirs = golden("seq_efsignsgd_lr0.1"),
             their_residual = golden("seq_efsignsgd_lr0.1_residual");
  using codec = pith::error_feedback<pith::scaled_sign>;
  auto t = trial<float, codec>(codec(pith::scaled_sign(), pith::residual(1, 0.1)), {256});
  auto const first = narrow<float>(row(their_residual, 0));
  auto& kept = std::get<1>(t.state().local().each).residual;
  std::memcpy(kept.data(), first.data(), kept.size_bytes());
  for (int step = 1; step < 5; ++step) {
    auto const y = widen(t.roundtrip(narrow<float>(row(g, step))));
    auto const size = largest(row(their_residual, step)) + largest(y);
    // Four roundings a step on both sides, and their mean of 256 in float.
    auto const bound = (8 * step + 32) * 0x1p-24 * size;
    auto wanted = row(theirs, step);
    for (auto& v : wanted) v *= static_cast<double>(0.1f);
    CHECK(largest(minus(y, wanted)) <= bound);
    CHECK(largest(minus(residual_of(t.state()), row(their_residual, step))) <= bound);
  }
}
