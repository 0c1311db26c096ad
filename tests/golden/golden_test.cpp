// tests/golden/golden_test.cpp — decoded values against those of GRACE's PyTorch code; tests/data/golden/README.md.
#include <pith/codec/chain.hpp>
#include <pith/exchange/mean_norm.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>

#include "golden/reference.hpp"
#include "support/singular_value.hpp"

using namespace support;

namespace {

/// (norm / s)^2 p (1 - p), p the fraction of s |x| / norm, with one norm per bucket.
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

/// How far P P^T M of two computations in float may be apart for a 64 x 48 matrix M and a start Q of `rank` columns, to
/// first order in u = 2^-24. Where A = M Q is off by e, its span turns by e / s, s the least singular value of A, and
/// no column that either has made orthonormal is more sensitive than k = |M| |Q| / s.
///   ours     A is rounded once: k; P, Q' and the result: 4 sqrt(rank) + 4 (lowrank/power_sgd_test)
///   theirs   Gram-Schmidt of Q, and of P, rounds a column 2 rank - 1 times: 2 (2 rank - 1) k. Sums of 48 products make
///            A: 48 sqrt(rank) k. Sums of 64 products and four roundings make columns of P as orthogonal as
///            68 sqrt(2 (rank - 1)) k and as long as 68 sqrt(rank). Q' and the result: (64 + rank) sqrt(rank)
double apart(std::vector<double> const& m, std::vector<double> const& q, unsigned rank) {
  auto const r = static_cast<double>(rank), root = std::sqrt(r);
  auto const k = std::sqrt(square(m) * square(q)) / min_singular_value(product(m, q, 48, rank), rank);
  auto const ours = k + 4 * root + 4;
  auto const theirs = (2 * (2 * r - 1) + 48 * root + 68 * std::sqrt(2 * (r - 1))) * k + (68 + 64 + r) * root;
  return (ours + theirs) * 0x1p-24 * std::sqrt(square(m));
}

}  // namespace

TEST_CASE("read_npy reads arrays and refuses missing files and other formats") {
  auto const m = read_npy(path_of("in_mat64x48"));
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
    auto const start = read_npy(path_of("in_powersgd_q_r" + std::to_string(rank)));
    auto& q = t.state().replicated().q;
    REQUIRE(q.size() == start.values.size());
    std::memcpy(q.data(), start.values.data(), q.size_bytes());
    auto const ours = widen(t.all_reduce(narrow<float>(m)));
    auto const theirs = golden("det_powersgd_r" + std::to_string(rank) + "__mat64x48");
    CHECK(std::sqrt(square(minus(ours, theirs))) <= apart(m, widen(start.values), rank));
  }
}

TEST_CASE("regression against the reference: the zero matrix decodes to zero and not to NaN") {
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

TEST_CASE("five steps of threshold with a residual are the same") {
  auto const g = golden("in_seq5x256"), sent = golden("seq_threshold_1.5_residual"),
             kept = golden("seq_threshold_1.5_residual_residual");
  auto t = trial<float, pith::error_feedback<pith::threshold<>>>(pith::error_feedback(pith::threshold(1.5)), {256});
  for (int step = 0; step < 5; ++step) {
    CHECK(widen(t.roundtrip(narrow<float>(row(g, step)))) == row(sent, step));
    CHECK(residual_of(t.state()) == row(kept, step));
  }
}

TEST_CASE("five steps of momentum correction are the same but for rounding, with and without clipping") {
  // The reference clips elements at sqrt(mean over the ranks of |g|^2). Of one rank none is farther than that from zero:
  // its vectors are the same, and so must ours be.
  auto comm = pith::self_communicator();
  auto memory = std::vector<std::byte>(pith::mean_norm_workspace_bytes(256));
  auto ws = pith::workspace<>(memory);
  auto const g = golden("in_seq5x256"), sent = golden("seq_dgcmem_m0.9_thr1.5_clip0"),
             momentum = golden("seq_dgcmem_m0.9_thr1.5_clip0_residual");
  using codec = pith::error_feedback<pith::threshold<>, pith::momentum_correction>;
  auto t = trial<float, codec>(codec(pith::threshold(1.5), pith::momentum_correction(0.9), pith::unverified), {256});
  double most = 0;
  for (int step = 0; step < 5; ++step) {
    auto x = narrow<float>(row(g, step));
    pith::clamp_to_mean_norm<float>(pith::seq, comm, pith::span<float>(x), ws);
    CHECK(widen(x) == row(g, step));
    auto const y = widen(t.roundtrip(x));
    auto const& carried = std::get<1>(t.state().local().each).momentum;
    auto u = widen(std::vector<float>(carried.data(), carried.data() + 256));
    for (auto& v : u) v /= static_cast<double>(0.9f);
    most = std::max({most, largest(y), largest(u), 1.5});
    // Theirs rounds m u, u and v in a step; ours p, u and the p - v that it finds u in, then m u and v. None is above
    // `most`, and what is off in one step counts in all that follow: once in v, and less in u.
    auto const bound = (3 + 6) * (step + 1) * (step + 2) / 2 * 0x1p-24 * most;
    CHECK(largest(minus(y, row(sent, step))) <= bound);
    CHECK(largest(minus(u, row(momentum, step))) <= bound);
  }
}

TEST_CASE("signum's momentum starts from zero, where the reference's is its first gradient") {
  // Theirs is the momentum of 1 / (1 - beta) times the first gradient. From zero and from that they have the same signs
  // in the first step; given it, in all.
  auto const g = golden("in_seq5x256"), theirs = golden("seq_signum_0.9");
  using codec = pith::error_feedback<pith::sign, pith::signum_momentum>;
  auto ours = trial<float, codec>(codec(pith::sign(), pith::signum_momentum(0.9)), {256});
  auto given = trial<float, codec>(codec(pith::sign(), pith::signum_momentum(0.9)), {256});
  auto m = std::vector<double>(256);
  for (int step = 0; step < 5; ++step) {
    auto const x = narrow<float>(row(g, step));
    for (std::size_t i = 0; i < 256; ++i) m[i] = 0.9 * m[i] + 0.1 * static_cast<double>(x[i]);
    auto const y = ours.roundtrip(x);
    // Three roundings per step may change the sign of values as small as the roundings.
    for (std::size_t i = 0; i < 256; ++i)
      CHECK((y[i] == (m[i] < 0 ? -1 : 1) || std::abs(m[i]) <= 15 * 0x1p-24 * largest(m)));
    CHECK(widen(given.roundtrip(x)) == row(theirs, step));
    if (step == 0) {
      auto const& momentum = std::get<1>(given.state().local().each).momentum;
      for (std::size_t i = 0; i < 256; ++i) momentum.data()[i] = 0.9f * x[i];
    }
  }
}

TEST_CASE("five steps of scaled_sign with a learning rate are right where the reference errs in its first") {
  // p = e + lr g is encoded and e = p - D(C(p)); the decoded payload is divided by lr. The reference omits lr in
  // its first step (p = g), so its first update is 1 / lr too large, and so is its residual. It is therefore no target.
  // Here lr g is encoded from the start, and an oracle in double gives the expected values.
  auto const g = golden("in_seq5x256"), theirs = golden("seq_efsignsgd_lr0.1"),
             their_residual = golden("seq_efsignsgd_lr0.1_residual");
  using codec = pith::error_feedback<pith::scaled_sign, pith::ef_sign>;
  auto t = trial<float, codec>(codec(pith::scaled_sign(), pith::ef_sign(0.1)), {256});
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

TEST_CASE("ef_sign reproduces the reference from the second step on, given the reference's first residual") {
  auto const g = golden("in_seq5x256"), theirs = golden("seq_efsignsgd_lr0.1"),
             their_residual = golden("seq_efsignsgd_lr0.1_residual");
  using codec = pith::error_feedback<pith::scaled_sign, pith::ef_sign>;
  auto t = trial<float, codec>(codec(pith::scaled_sign(), pith::ef_sign(0.1)), {256});
  auto const first = narrow<float>(row(their_residual, 0));
  auto& kept = std::get<1>(t.state().local().each).residual;
  std::memcpy(kept.data(), first.data(), kept.size_bytes());
  for (int step = 1; step < 5; ++step) {
    auto const y = widen(t.all_reduce(narrow<float>(row(g, step))));
    auto const size = largest(row(their_residual, step)) + 0.1 * largest(y);
    // Four roundings per step on both sides, and their mean of 256 in float; y is divided by the learning rate.
    auto const bound = (8 * step + 32) * 0x1p-24 * size;
    CHECK(largest(minus(y, row(theirs, step))) <= 10 * bound + 4 * 0x1p-24 * largest(y));
    CHECK(largest(minus(residual_of(t.state()), row(their_residual, step))) <= bound);
  }
}
