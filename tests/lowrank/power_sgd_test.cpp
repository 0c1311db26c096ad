// tests/lowrank/power_sgd_test.cpp — projections on a few columns, alone and in an exchange.
#include <pith/codec/chain.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "support/conform.hpp"
#include "support/low_rank.hpp"

using namespace support;
using pith::power_sgd;

namespace {

/// A^T A - I, its largest entry; A is rows x rank.
double distance_from_orthonormal(std::vector<double> const& a, std::size_t rank) {
  double most = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t j = 0; j < rank; ++j) {
      double sum = i == j ? -1 : 0;
      for (std::size_t r = 0; r < a.size(); r += rank) sum += a[r + i] * a[r + j];
      most = std::max(most, std::abs(sum));
    }
  }
  return most;
}

struct factors {
  std::vector<double> p, q;
};

template <class A>
factors factors_of(std::vector<std::byte> const& payload, std::size_t p_size) {
  auto values = std::vector<A>(payload.size() / sizeof(A));
  std::memcpy(values.data(), payload.data(), payload.size());
  auto const all = widen(values);
  auto const border = all.begin() + static_cast<std::ptrdiff_t>(p_size);
  return {{all.begin(), border}, {border, all.end()}};
}

/// The start that a codec by itself drew.
template <class Trial>
std::vector<double> cold_start(Trial& t, std::size_t n) {
  auto q = std::vector<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    q[i] = static_cast<double>(pith::detail::approx_normal<float>::at(pith::draws(pith::shared(t.state().id())), i));
  }
  return q;
}

}  // namespace

TEST_CASE("the least singular value of matrices whose are known") {
  CHECK(min_singular_value({3, 0, 0, 4, 0, 0}, 2) == doctest::Approx(3).epsilon(1e-12));
  CHECK(min_singular_value({1, 1, 1, 1}, 2) <= 1e-12);
  CHECK(min_singular_value({1, 2, 2, 1}, 2) == doctest::Approx(1).epsilon(1e-12));  // of 3 and 1
}

TEST_CASE("power_sgd takes any input of any size and type") {
  conforms(power_sgd(2), {{0}, {1}, {7}, {100}, {48, 48}, {16, 4}, {12 * 20, 12}, {20 * 12, 20}, {31 * 17, 31}});
}

TEST_CASE_TEMPLATE("vectors and small matrices are sent as they are", In, float, double, pith::half, pith::bfloat16) {
  auto const x = widen(narrow<In>(normal_vector(64, 91)));
  CHECK(decoded<In>(power_sgd(4), {64}, x) == x);
  CHECK(decoded<In>(power_sgd(4), {64, 64}, x) == x);
  CHECK(decoded<In>(power_sgd(4), {64, 8}, x) == x);
  CHECK(decoded<In>(power_sgd(2), {64, 8}, x) != x);  // two factors of 16 are half of 64
  auto t = trial<In, power_sgd>(power_sgd(4), {64, 8});
  CHECK(widen(t.all_reduce(narrow<In>(x))) == x);
  CHECK(power_sgd(4).delta({64, 8}) == 1);
  CHECK(power_sgd(2).delta({64, 8}) == 2 / 8.0);
}

TEST_CASE("factors are sent from min_rate times their values on") {
  // r (rows + columns) is 2 (8 + 8 m) values for 64 m elements: 4 m / (m + 1) times as many.
  CHECK(!power_sgd(2, 3).is_lossless({64 * 3, 8}));
  CHECK(power_sgd(2, 3.01).is_lossless({64 * 3, 8}));
  CHECK(power_sgd(2, 3).is_lossless({64 * 2, 8}));
  CHECK(!power_sgd(2).is_lossless({64, 8}));
  CHECK(power_sgd(2, 2.5).is_lossless({64, 8}));
  CHECK(!power_sgd(4, 1).is_lossless({64, 8}));  // 64 values for 64 elements
  CHECK(power_sgd(5, 1).is_lossless({64, 8}));
  for (unsigned rank = 32; rank <= 80; ++rank) CHECK(power_sgd(rank, 1).is_lossless({32 * 64, 32}));
  CHECK(pith::payload_bytes<float>(power_sgd(2, 3), {64 * 3, 8}) == 64 * sizeof(float));
  CHECK(pith::payload_bytes<float>(power_sgd(2, 3.01), {64 * 3, 8}) == 64 * 3 * sizeof(float));
  auto const x = normal_vector(64 * 3, 97);
  CHECK(decoded<double>(power_sgd(2, 3.01), {64 * 3, 8}, x) == x);
  CHECK(decoded<double>(power_sgd(2, 3), {64 * 3, 8}, x) != x);
}

TEST_CASE_TEMPLATE("P is orthonormal, and the squared error is the squared norm of M minus that of Q", In, float,
                   double, pith::half, pith::bfloat16) {
  auto const dims = pith::shape{80 * 72, 80};
  auto const m = widen(narrow<In>(normal_vector(dims.n, 92)));
  for (unsigned rank = 1; rank <= 32; ++rank) {
    CAPTURE(rank);
    auto t = trial<In, power_sgd>(power_sgd(rank, 1), dims);
    auto const payload = t.compress(narrow<In>(m));
    REQUIRE(payload.size() == (80 + 72) * rank * sizeof(pith::accum<In>));
    auto const f = factors_of<pith::accum<In>>(payload, 80 * rank);
    // As in orthonormalize_test: 2 r + 1 roundings of a column, here and there, and sums of 80 in double.
    auto const r = static_cast<double>(rank), u = roundoff<pith::accum<In>>(), once = roundoff<In>();
    auto const off = (4 * r + 2) * u + 80 * 0x1p-53;
    CHECK(distance_from_orthonormal(f.p, rank) <= off);
    auto const error = square(minus(m, widen(t.decompress(payload))));
    // |M - P Q^T|^2 = |M|^2 - 2 <M^T P, Q> + |P Q^T|^2. Q is M^T P but for a sum of 80 in double and a rounding, and
    // |P Q^T|^2 is |Q|^2 but for r times what P^T P is off; decoding sums r terms in double and rounds once.
    // The squares here are sums in double themselves.
    auto const sums = (2 * 80 + 2 * r + 3 * static_cast<double>(dims.n)) * 0x1p-53;
    CHECK(std::abs(error - (square(m) - square(f.q))) <= (2 * u + r * off + (2 + once) * once + sums) * square(m));
  }
}

TEST_CASE("a matrix of rank r is recovered after one step") {
  auto const m = matrix_of({5, 3, 1}, 24, 36);
  auto const dims = pith::shape{m.size(), 24};
  for (unsigned const rank : {3u, 4u}) {
    auto t = trial<float, power_sgd>(power_sgd(rank), dims);
    auto const warm = first_columns(warm_start(t), rank, 3);
    CHECK(distance(t.all_reduce(narrow<float>(m)), m) <= one_step_error(m, warm, 3));
    auto const y = t.roundtrip(narrow<float>(m));
    CHECK(distance(y, m) <= one_step_error(m, first_columns(cold_start(t, 36 * rank), rank, 3), 3));
  }
}

TEST_CASE("power_sgd(4) recovers a matrix of rank 1 and the zero matrix in every step") {
  auto const dims = pith::shape{24 * 36, 24};
  auto const one = matrix_of({2}, 24, 36);
  auto const zero = std::vector<double>(dims.n);
  auto t = trial<float, power_sgd>(power_sgd(4), dims);
  for (int step = 0; step < 3; ++step) {
    auto const warm = first_columns(warm_start(t), 4, 1);
    CHECK(distance(t.all_reduce(narrow<float>(one)), one) <= one_step_error(one, warm, 1));
    CHECK(widen(t.all_reduce(narrow<float>(zero))) == zero);
    CHECK(widen(t.roundtrip(narrow<float>(zero))) == zero);
    auto const y = t.roundtrip(narrow<float>(one));
    CHECK(distance(y, one) <= one_step_error(one, first_columns(cold_start(t, 36 * 4), 4, 1), 1));
  }
}

TEST_CASE("a matrix of rank 2 is recovered in the first step after the zero matrix") {
  auto const m = matrix_of({2, 1}, 24, 36);
  auto t = trial<float, power_sgd>(power_sgd(2), {m.size(), 24});
  t.all_reduce(std::vector<float>(m.size()));
  auto const start = warm_start(t);
  CHECK(distance(t.all_reduce(narrow<float>(m)), m) <= one_step_error(m, start, 2));
}

TEST_CASE_TEMPLATE("warm steps find the best approximation", In, float, double) {
  // Singular values halve, so an error in the space shrinks by 4 in each step.
  auto const m = matrix_of({16, 8, 4, 2, 1, 0.5}, 32, 32);
  auto t = trial<In, power_sgd>(power_sgd(2), {m.size(), 32});
  auto const best = 16 + 4 + 1 + 0.25;
  double ratio = 0;
  for (int step = 0; step < 5; ++step) ratio = square(minus(widen(t.all_reduce(narrow<In>(m))), m)) / best;
  CHECK(ratio >= 1 - 1e-5);
  CHECK(ratio <= 1.01);
}

TEST_CASE("regression against the reference: an exchange goes on with the last Q, only a codec by itself draws again") {
  auto const m = matrix_of({16, 8, 4, 2, 1, 0.5}, 32, 32);
  auto cold = trial<float, power_sgd>(power_sgd(1), {m.size(), 32});
  auto const x = narrow<float>(m);
  auto const error = [&](std::vector<float> const& y) { return square(minus(widen(y), m)); };
  CHECK(cold.compress(x) != cold.compress(x));
  auto warm = trial<float, power_sgd>(power_sgd(1), {m.size(), 32});
  double before = error(warm.all_reduce(x));
  for (int step = 0; step < 4; ++step) {
    auto const now = error(warm.all_reduce(x));
    CHECK(now <= before * (1 + 1e-5));
    before = now;
  }
}

TEST_CASE("an exchange over four ranks with equal gradients has the result of one rank") {
  auto const m = widen(narrow<float>(normal_vector(20 * 30, 93)));
  auto one = trial<float, power_sgd>(power_sgd(2), {m.size(), 20});
  auto four = trial<float, power_sgd>(power_sgd(2), {m.size(), 20});
  // Sums of four equal floats and their quarters are exact.
  for (int step = 0; step < 3; ++step) {
    CHECK(one.all_reduce(narrow<float>(m)) == four.all_reduce(narrow<float>(m), echo_communicator<4>()));
  }
}

TEST_CASE("factors of bfloat16 are half as large, and means of four equal ranks are those of one") {
  auto const rounded = power_sgd(2, 2, pith::factor_format::bfloat16);
  auto const dims = pith::shape{20 * 30, 20};
  for (unsigned const round : {0u, 1u}) {
    auto const moved = rounded.round<float>(round, dims, 4), full = power_sgd(2).round<float>(round, dims, 4);
    CHECK(moved.how == pith::transport::all_reduce_mean);
    CHECK(2 * moved.bytes() == full.bytes());
  }
  CHECK(rounded.round<float>(0, {16}, 4).how == pith::transport::all_reduce_sum);  // lossless
  auto const m = narrow<float>(normal_vector(20 * 30, 93));
  auto one = trial<float, power_sgd>(rounded, dims);
  auto four = trial<float, power_sgd>(rounded, dims);
  for (int step = 0; step < 3; ++step) CHECK(one.all_reduce(m) == four.all_reduce(m, echo_communicator<4>()));
}

TEST_CASE("factors of bfloat16 keep a matrix of rank 1 up to two roundings") {
  auto const m = matrix_of({2}, 24, 36);
  for (auto const& codec : {power_sgd(1, 1), power_sgd(1, 1, pith::factor_format::bfloat16)}) {
    CAPTURE(codec.name());
    auto t = trial<float, power_sgd>(codec, {m.size(), 24});
    auto const error = distance(t.all_reduce(narrow<float>(m)), m) / std::sqrt(square(m));
    // M = P x^T, and P + E is sent with |E| <= u |P|, u = 2^-8: the projection loses at most |E| |x| <= u |M|. The
    // error of Q' is orthogonal to it, and at most u |Q'| <= u |M|.
    auto const is_rounded = codec.name() != "power_sgd(1,1)";
    CHECK(error <= (is_rounded ? std::sqrt(2.0) * 0x1p-8 : 0) + 0x1p-18);
    CHECK((error > 0x1p-14) == is_rounded);
  }
}

TEST_CASE("NaN makes the whole mean NaN and the next step is sound") {
  auto const m = matrix_of({2, 1}, 24, 36);
  auto bad = narrow<float>(m);
  for (auto const& codec : {power_sgd(1), power_sgd(2), power_sgd(1, 2, pith::factor_format::bfloat16)}) {
    CAPTURE(codec.name());
    auto t = trial<float, power_sgd>(codec, {m.size(), 24});
    for (double const odd : {not_a_number, infinity, -infinity}) {
      bad[100] = static_cast<float>(odd);
      unsigned numbers = 0;
      for (auto const v : t.all_reduce(bad)) numbers += !std::isnan(v);
      CHECK(numbers == 0);
      auto const start = warm_start(t);
      auto const y = t.all_reduce(narrow<float>(m));
      if (codec.name() == "power_sgd(2)") CHECK(distance(y, m) <= one_step_error(m, start, 2));
      CHECK(all_finite(widen(y)));
    }
  }
}

TEST_CASE("the residual is the sum of the gradients minus the sum of the exchanged means") {
  auto const m = widen(narrow<float>(normal_vector(20 * 30, 94)));
  for (auto const& stage : {power_sgd(2), power_sgd(2, 2, pith::factor_format::bfloat16)}) {
    CAPTURE(stage.name());
    auto t = trial<float, pith::error_feedback<power_sgd>>(pith::error_feedback(stage), {m.size(), 20});
    auto sent = std::vector<double>(m.size());
    double bound = 0;
    for (int step = 1; step <= 10; ++step) {
      auto const y = widen(t.all_reduce(narrow<float>(m)));
      for (std::size_t i = 0; i < m.size(); ++i) sent[i] += y[i];
      auto const& kept = std::get<1>(t.state().local().each).residual;
      double largest = 0;
      for (std::size_t i = 0; i < m.size(); ++i) {
        auto const left = step * m[i] - sent[i] - static_cast<double>(kept.view()[i]);
        largest = std::max(largest, std::abs(left));
      }
      // Each step rounds p = e + g and e = p - sent once each; none is above 64 here.
      bound += 2 * 64 * 0x1p-24;
      CHECK(largest <= bound);
    }
  }
}

TEST_CASE("power_sgd in a chain keeps no state, decodes to the same values and refuses rows that do not divide n") {
  auto const m = narrow<float>(normal_vector(20 * 30, 95));
  auto const dims = pith::shape{m.size(), 20};
  auto const chained = power_sgd(2) | pith::cast<float>();
  auto alone = trial<float, power_sgd>(power_sgd(2), dims);
  auto t = trial<float, std::remove_const_t<decltype(chained)>>(chained, dims);
  auto count = pith::detail::field_counter();
  t.state().replicated().fields(count);
  CHECK(count.bytes == 0);
  CHECK(t.roundtrip(m) == alone.roundtrip(m));
  CHECK_THROWS_WITH_AS(pith::make_state<float>(pith::seq, chained, {100, 7}),
                       "pith::power_sgd: rows must divide the 100 elements of the tensor, got 7",
                       std::invalid_argument);
}

TEST_CASE("ranks and shapes that cannot be are refused") {
  CHECK_THROWS_WITH_AS(power_sgd(0), "pith::power_sgd: rank must be at least 1, got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::make_state<float>(pith::seq, power_sgd(1), {100, 7}),
                       "pith::power_sgd: rows must divide the 100 elements of the tensor, got 7",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::payload_bytes<float>(power_sgd(1), {100, 0}),
                       "pith::power_sgd: rows must divide the 100 elements of the tensor, got 0",
                       std::invalid_argument);
  for (double const rate : {0.99, infinity, not_a_number}) {
    CHECK_THROWS_WITH_AS(power_sgd(1, rate),
                         doctest::Contains("pith::power_sgd: min_rate must be finite and at least 1"),
                         std::invalid_argument);
  }
  CHECK(power_sgd(4).name() == "power_sgd(4)");
  CHECK(power_sgd(4, 2).name() == "power_sgd(4)");
  CHECK(power_sgd(4, 10).name() == "power_sgd(4,10)");
  CHECK(power_sgd(4, 2, pith::factor_format::bfloat16).name() == "power_sgd(4,2,bfloat16)");
}
