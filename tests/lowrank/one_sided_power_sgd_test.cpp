// tests/lowrank/one_sided_power_sgd_test.cpp — one factor per step, alternating.
#include <pith/codec/detail/saving.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/conform.hpp"
#include "support/exchanged.hpp"
#include "support/group.hpp"
#include "support/low_rank.hpp"

using namespace support;
using pith::one_sided_power_sgd;

namespace {

template <class State>
std::vector<std::byte> saved(State& state) {
  auto saver = pith::detail::field_saver<pith::seq_executor>(pith::seq);
  state.fields(saver);
  return std::move(saver.bytes);
}

/// Matrices of whole numbers, one a rank, whose mean over four ranks is exact.
std::vector<std::vector<float>> whole_matrices(std::size_t n) {
  auto g = std::vector<std::vector<float>>();
  for (std::uint64_t r = 0; r < 4; ++r) {
    auto x = normal_vector(n, 130 + r);
    for (auto& v : x) v = std::round(16 * v);
    g.push_back(narrow<float>(x));
  }
  return g;
}
std::vector<float> mean_of(std::vector<std::vector<float>> const& g) {
  auto mean = g[0];
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (g[0][i] + g[1][i] + g[2][i] + g[3][i]) / 4;
  return mean;
}

/// How far from M of rank 2 the second of two steps may end: the first one is of Q, or of P where it is its turn.
template <class Trial>
double two_steps_error(Trial& t, std::vector<double> const& m, bool odd) {
  if (!odd) return one_step_error(m, warm_start(t), 2);
  auto turned = std::vector<double>();
  for (std::size_t i = 0; i < m.size(); ++i) turned.push_back(m[i % 24 * 36 + i / 24]);
  return one_step_error(turned, kept(t.state().replicated().p), 2);
}

/// Keeps what the rank handed over last.
struct listening_communicator : pith::self_communicator {
  std::vector<float>* heard;

  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T> x, pith::reduction) {
    heard->clear();
    for (auto const& v : x) heard->push_back(static_cast<float>(pith::element_cast<double>(v)));
    return {};
  }
};

}  // namespace

TEST_CASE("one_sided_power_sgd outside an exchange equals power_sgd") {
  conforms(one_sided_power_sgd(2), {{0}, {1}, {7}, {48, 48}, {16, 4}, {12 * 20, 12}, {20 * 12, 20}});
  auto one = trial<float, one_sided_power_sgd>(one_sided_power_sgd(2), {600, 20});
  auto two = trial<float, pith::power_sgd>(pith::power_sgd(2), {600, 20});
  for (std::uint64_t step = 0; step < 3; ++step) {
    auto const x = narrow<float>(normal_vector(600, step));
    auto const payload = one.compress(x);
    CHECK(payload == two.compress(x));
    CHECK(one.decompress(payload) == two.decompress(payload));
  }
}

TEST_CASE("one sum of the longer factor travels, or the matrix") {
  auto const codec = one_sided_power_sgd(3);
  CHECK(codec.rounds({1200, 40}, 4) == 1);
  CHECK(codec.round<float>(0, {1200, 40}, 4) ==
        pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::f32, 120});
  CHECK(codec.round<double>(0, {1200, 30}, 4) ==
        pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::f64, 120});
  CHECK(codec.round<float>(0, {100}, 4) ==
        pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::f32, 100});
  auto const x = narrow<float>(normal_vector(64, 91));
  auto t = trial<float, one_sided_power_sgd>(one_sided_power_sgd(4), {64, 8});
  CHECK(t.all_reduce(x) == x);
  CHECK(one_sided_power_sgd(1, 4).is_lossless({64, 8}) == false);
  CHECK(one_sided_power_sgd(1, 4.1).is_lossless({64, 8}));
}

TEST_CASE("the all-reduced buffer is zero after the shorter factor") {
  auto t = trial<float, one_sided_power_sgd>(one_sided_power_sgd(2), {12 * 40, 12});
  auto heard = std::vector<float>();
  for (std::uint64_t step = 0; step < 6; ++step) {
    t.all_reduce(narrow<float>(normal_vector(12 * 40, step)), listening_communicator{{}, &heard});
    REQUIRE(heard.size() == 2 * 40);
    auto const zeros = std::count(heard.begin(), heard.end(), 0.0f);
    CHECK(zeros == (step % 2 == 0 ? 2 * (40 - 12) : 0));
    CHECK(std::all_of(heard.end() - zeros, heard.end(), [](float v) { return v == 0; }));
  }
}

TEST_CASE_TEMPLATE("steps find the best approximation, and none is worse than the one before", In, float, double) {
  // Singular values halve, so an error in the space shrinks by 2 in each step and its square by 4: ten steps leave
  // 4^-10 tan^2 (16^2 + 8^2) / best = 1.5e-5 tan^2 of it, 0.01 of a start at an angle of tan = 26.
  // A result of float is off by (4 sqrt(2) + 4) u |M| as in one_step_error, |M| being 4 times the best error's norm: a
  // ratio by 2 x 4 x 9.7 u = 4.6e-6, two of them by less than 1e-5.
  auto const m = matrix_of({16, 8, 4, 2, 1, 0.5}, 32, 48);
  auto t = trial<In, one_sided_power_sgd>(one_sided_power_sgd(2), {m.size(), 32});
  auto const best = 16 + 4 + 1 + 0.25;
  double before = square(m) / best, ratio = 0;
  for (int step = 0; step < 10; ++step, before = ratio) {
    ratio = square(minus(widen(t.all_reduce(narrow<In>(m))), m)) / best;
    CHECK(ratio <= before * (1 + 1e-5));
  }
  CHECK(ratio >= 1 - 1e-5);
  CHECK(ratio <= 1.01);
}

TEST_CASE("the first step keeps delta of a matrix in the mean over its start") {
  for (auto const& dims : {pith::shape{64, 8}, pith::shape{4 * 24, 24}, pith::shape{24 * 4, 4}}) {
    CAPTURE(dims.rows);
    auto const m = normal_vector(dims.n, 96);
    double mean = 0, squares = 0;
    constexpr unsigned starts = 2000;
    for (unsigned start = 0; start < starts; ++start) {
      auto t = trial<double, one_sided_power_sgd>(one_sided_power_sgd(1), dims, {start, 1, 0});
      auto const part = square(widen(t.all_reduce(m))) / square(m);
      mean += part / starts, squares += part * part / starts;
    }
    // Q spans any direction alike: 1 / columns of |M|^2, which is delta where the columns are not fewer than the rows.
    auto const five_errors = 5 * std::sqrt((squares - mean * mean) / starts);
    CHECK(std::abs(mean - 1 / static_cast<double>(dims.columns())) <= five_errors);
    CHECK(mean >= one_sided_power_sgd(1).delta(dims) - five_errors);
  }
}

TEST_CASE("a matrix of rank r is recovered from the second step on") {
  auto const m = matrix_of({5, 3, 1}, 24, 36);
  for (unsigned const rank : {3u, 4u}) {
    auto t = trial<float, one_sided_power_sgd>(one_sided_power_sgd(rank), {m.size(), 24});
    auto const start = first_columns(warm_start(t), rank, 3);
    CHECK(distance(t.all_reduce(narrow<float>(m)), m) > 1e-2);  // 10^4 u |M|: not yet
    CHECK(distance(t.all_reduce(narrow<float>(m)), m) <= one_step_error(m, start, 3));
  }
}

TEST_CASE("the mean over four ranks is the result of one rank for the mean of their gradients, up to rounding") {
  auto const m = narrow<float>(normal_vector(20 * 30, 93));
  auto const dims = pith::shape{m.size(), 20};
  auto const g = whole_matrices(m.size());
  auto const mean = mean_of(g);
  for (int before = 0; before < 4; ++before) {
    CAPTURE(before);
    auto one = trial<float, one_sided_power_sgd>(one_sided_power_sgd(2), dims);
    auto four = group<float, one_sided_power_sgd>(one_sided_power_sgd(2), dims, 4);
    // Sums of four equal floats and their quarters are exact.
    for (int step = 0; step < before; ++step) {
      auto const y = one.all_reduce(m);
      for (auto const& x : four.all_reduce({m, m, m, m})) CHECK(x == y);
    }
    // With the same projector B, |B| = 1: a rank's factor G B is rounded, and added to at most three times; so is that
    // of the mean, once, and both results: u each, and their products a thousandth at most.
    double bound = 3 * std::sqrt(square(widen(mean)));
    for (auto const& x : g) bound += 4 * std::sqrt(square(widen(x))) / 4;
    auto const y = widen(one.all_reduce(mean));
    auto const received = four.all_reduce(g);
    for (auto const& x : received) CHECK(x == received[0]);
    CHECK(distance(received[0], y) <= 1.001 * 0x1p-24 * bound);
    CHECK(square(y) > 0.01 * square(widen(mean)));
  }
}

TEST_CASE("zero matrices are recovered, and the next nonzero matrix is recovered within two steps") {
  auto const m = matrix_of({2, 1}, 24, 36);
  for (int zeros = 1; zeros < 4; ++zeros) {
    auto t = trial<float, one_sided_power_sgd>(one_sided_power_sgd(2), {m.size(), 24});
    auto const zero = std::vector<float>(m.size());
    for (int step = 0; step < zeros; ++step) CHECK(t.all_reduce(zero) == zero);
    auto const bound = two_steps_error(t, m, zeros % 2 == 1);
    t.all_reduce(narrow<float>(m));
    CHECK(distance(t.all_reduce(narrow<float>(m)), m) <= bound);
  }
}

TEST_CASE("NaN or infinity makes the whole mean NaN, and the steps after it are correct") {
  auto const m = matrix_of({2, 1}, 24, 36);
  auto bad = narrow<float>(m);
  for (int before = 0; before < 2; ++before) {
    for (double const odd : {not_a_number, infinity, -infinity}) {
      auto t = trial<float, one_sided_power_sgd>(one_sided_power_sgd(2), {m.size(), 24});
      for (int step = 0; step < before; ++step) t.all_reduce(narrow<float>(m));
      bad[100] = static_cast<float>(odd);
      unsigned numbers = 0;
      for (auto const v : t.all_reduce(bad)) numbers += !std::isnan(v);
      CHECK(numbers == 0);
      auto const bound = two_steps_error(t, m, before == 0);
      CHECK(all_finite(widen(t.all_reduce(narrow<float>(m)))));
      CHECK(distance(t.all_reduce(narrow<float>(m)), m) <= bound);
    }
  }
}

TEST_CASE("factors of bfloat16 keep a matrix of rank 1 from the second step on, up to roundings") {
  auto const m = matrix_of({2}, 24, 36);
  auto t = trial<float, one_sided_power_sgd>(one_sided_power_sgd(1, 1, pith::factor_format::bfloat16), {m.size(), 24});
  CHECK(t.codec().round<float>(0, {m.size(), 24}, 4).bytes() == 36 * 2);
  t.all_reduce(narrow<float>(m));
  for (int step = 2; step < 6; ++step) {
    // M = P x^T, and P + E is the basis with |E| <= u |P|, u = 2^-8: the projection loses at most u |M|. The error of
    // the factor that is sent in this step is orthogonal to it, and at most u |M|.
    auto const error = distance(t.all_reduce(narrow<float>(m)), m) / std::sqrt(square(m));
    CHECK(error <= std::sqrt(2.0) * 0x1p-8 + 0x1p-18);
    CHECK(error > 0x1p-14);
  }
}

TEST_CASE("NaN with factors of bfloat16 makes the whole mean NaN, and the next step is finite") {
  auto const m = narrow<float>(matrix_of({2, 1}, 24, 36));
  for (double const odd : {not_a_number, infinity, -infinity}) {
    auto t =
        trial<float, one_sided_power_sgd>(one_sided_power_sgd(2, 2, pith::factor_format::bfloat16), {m.size(), 24});
    for (int step = 0; step < 4; ++step) {
      auto bad = m;
      bad[100] = static_cast<float>(odd);
      for (auto const v : t.all_reduce(bad)) CHECK(std::isnan(v));
      CHECK(all_finite(widen(t.all_reduce(m))));
    }
  }
}

TEST_CASE("a saved state goes on with the factor whose turn it is") {
  auto const g = [](std::uint64_t step) { return narrow<float>(normal_vector(300, step)); };
  for (int before = 1; before < 4; ++before) {
    auto one = trial<float, one_sided_power_sgd>(one_sided_power_sgd(1), {300, 15});
    auto two = trial<float, one_sided_power_sgd>(one_sided_power_sgd(1), {300, 15});
    for (int step = 0; step < before; ++step) one.all_reduce(g(1));
    auto const bytes = saved(one.state());
    auto loader = pith::detail::field_loader<pith::seq_executor>(pith::seq, bytes.data());
    two.state().fields(loader);
    for (std::uint64_t step = 2; step < 5; ++step) CHECK(one.all_reduce(g(step)) == two.all_reduce(g(step)));
    CHECK(saved(one.state()) == saved(two.state()));
  }
}

TEST_CASE_TEMPLATE("threads have the bytes of seq", In, float, double, pith::half, pith::bfloat16) {
  auto pool = pith::thread_pool(3);
  auto const same = [&](auto const& codec) {
    CHECK(exchanged<In>(pith::par(pool), codec, {700 * 400, 700}) == exchanged<In>(pith::seq, codec, {700 * 400, 700}));
  };
  same(pith::error_feedback(one_sided_power_sgd(2)));
  same(pith::error_feedback(one_sided_power_sgd(2), pith::own_residual()));
  auto const rounded = one_sided_power_sgd(2, 2, pith::factor_format::bfloat16);
  same(pith::error_feedback(rounded));
  same(pith::error_feedback(rounded, pith::own_residual()));
}

TEST_CASE("its name says its arguments") {
  CHECK(one_sided_power_sgd(4).name() == "one_sided_power_sgd(4)");
  CHECK(one_sided_power_sgd(4, 10).name() == "one_sided_power_sgd(4,10)");
  CHECK(one_sided_power_sgd(4, 3, pith::factor_format::bfloat16).name() == "one_sided_power_sgd(4,3,bfloat16)");
  CHECK_THROWS_AS(one_sided_power_sgd(0), std::invalid_argument);
}
