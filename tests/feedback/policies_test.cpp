// tests/feedback/policies_test.cpp — the small policies, and what every policy owes: a state that can be saved, equal
// bytes on every executor.
#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/detail/saving.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/no_feedback.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/exchanged.hpp"
#include "support/group.hpp"
#include "support/policies.hpp"

using namespace support;
using pith::error_feedback;

namespace {

template <class C, class F>
using fed = error_feedback<C, F>;

template <class In = float, class C, class F>
trial<In, fed<C, F>> feeds(C const& codec, F const& policy, pith::shape dims) {
  return trial<In, fed<C, F>>(fed<C, F>(codec, policy, pith::unverified), dims);
}

template <class State>
std::vector<double> residual_of(State& state) {
  return kept(policy_state(state.local()).residual);
}

template <class State>
std::vector<std::byte> saved(State& state) {
  auto saver = pith::detail::field_saver<pith::seq_executor>(pith::seq);
  state.fields(saver);
  return std::move(saver.bytes);
}
template <class State>
void load(State& state, std::vector<std::byte> const& bytes) {
  auto loader = pith::detail::field_loader<pith::seq_executor>(pith::seq, bytes.data());
  state.fields(loader);
}

/// A state that is saved after two steps and loaded into another goes on as the first does; without it, it would not.
template <class C, class F>
void can_be_saved(C const& codec, F const& policy, pith::shape dims = {300, 15}) {
  CAPTURE(policy.name());
  auto one = feeds(codec, policy, dims), two = feeds(codec, policy, dims), fresh = feeds(codec, policy, dims);
  auto const g = [](unsigned step) { return narrow<float>(normal_vector(300, step)); };
  one.all_reduce(g(1)), one.all_reduce(g(2));
  auto const bytes = saved(one.state());
  load(two.state(), bytes);
  CHECK(saved(two.state()) == bytes);
  auto const next = one.all_reduce(g(3));
  CHECK(same_bytes(two.all_reduce(g(3)), next));
  CHECK(saved(two.state()) == saved(one.state()));
  CHECK_FALSE(same_bytes(fresh.all_reduce(g(3)), next));
}

/// Three ranks' residuals of either kind, of a codec that adds `terms` products for an element, or less.
template <class In, class C>
void have_one_sum(C const& codec, unsigned terms, pith::shape dims) {
  CAPTURE(codec.name());
  auto own = group<In, fed<C, pith::own_residual>>({codec, pith::own_residual(), pith::unverified}, dims, 3);
  auto mean = group<In, fed<C, pith::mean_residual>>({codec, pith::mean_residual(), pith::unverified}, dims, 3);
  auto g = std::vector<std::vector<In>>();
  for (unsigned r = 0; r < 3; ++r) g.push_back(narrow<In>(normal_vector(dims.n, 60 + r)));
  auto const x = own.all_reduce(g);
  CHECK(same_bytes(mean.all_reduce(g)[0], x[0]));
  auto sums = std::vector<double>(dims.n);
  double apart = 0, most = 0;
  for (unsigned r = 0; r < 3; ++r) {
    auto const a = kept(policy_state(own.local(r)).residual), b = kept(policy_state(mean.local(r)).residual);
    auto const gradient = widen(g[r]);
    for (std::size_t i = 0; i < dims.n; ++i) sums[i] += a[i] - b[i], most = std::max(most, std::abs(gradient[i]));
    apart += square(minus(a, b));
  }
  // An element of P Q^T is one of a projected column or row, no longer than that: sqrt(side) `most`. A rank's own part
  // rounds Q, the product, which adds `terms`, and e; that of the mean two sums, a third and its product as well. Other
  // codecs round less.
  auto const side = static_cast<double>(std::max(dims.rows, dims.columns()));
  auto const bound = 3 * (3 + 3 + 4 + 2 * terms) * roundoff<pith::accum<In>>() * std::sqrt(side) * most;
  CHECK(*std::max_element(sums.begin(), sums.end()) <= bound);
  CHECK(*std::min_element(sums.begin(), sums.end()) >= -bound);
  CHECK(apart > 1);
}

}  // namespace

TEST_CASE("a codec with no_feedback gives the same payloads and means as the codec alone") {
  auto const check = [](auto const& codec) {
    using C = std::remove_cvref_t<decltype(codec)>;
    CAPTURE(codec.name());
    auto plain = trial<float, C>(codec, {300, 15});
    auto t = feeds(codec, pith::no_feedback(), {300, 15});
    for (unsigned step = 0; step < 3; ++step) {
      auto const g = narrow<float>(normal_vector(300, step));
      CHECK(t.compress(g) == plain.compress(g));
      CHECK(same_bytes(t.all_reduce(g), plain.all_reduce(g)));
    }
  };
  check(pith::top_k(0.1) | pith::qsgd<8>());
  check(pith::scaled_sign());
  check(pith::power_sgd(1));
  check(pith::identity());
}

TEST_CASE("regression against the reference: the first step encodes lr g and not g") {
  auto t = feeds(pith::scaled_sign(), pith::ef_sign(0.5), {2});
  CHECK(t.all_reduce(of({3, -1})) == of({2, -2}));
  CHECK(residual_of(t.state()) == std::vector<double>{0.5, 0.5});  // of 0.5 (3, -1), in steps
  CHECK(t.all_reduce(of({1, 5})) == of({4, 4}));                   // of (1, 3), divided by 0.5
}

TEST_CASE("a new learning rate does not change the residual") {
  // sum of lr received + e = sum of lr g; powers of two are exact.
  auto t = feeds(pith::top_k(0.5), pith::ef_sign(0.5), {2});
  auto const slow = fed<pith::top_k<>, pith::ef_sign>(pith::top_k(0.5), pith::ef_sign(0.25), pith::unverified);
  CHECK(t.all_reduce(of({1, 4})) == of({0, 4}));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, slow, {2}, 1));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto comm = pith::self_communicator();
  auto g = of({0, 1});
  pith::all_reduce_mean(pith::seq, comm, slow, pith::span<float>(g), t.state(), ws);
  CHECK(g == of({2, 0}));  // the step of 0.5 that waited, at 0.25
  CHECK(residual_of(t.state()) == std::vector<double>{0, 0.25});
}

TEST_CASE("signum's momentum by hand, from zero and not from the first gradient") {
  auto t = feeds(pith::identity(), pith::signum_momentum(0.5), {2});
  CHECK(t.all_reduce(of({2, -8})) == of({1, -4}));
  CHECK(t.all_reduce(of({4, 0})) == of({2.5, -2}));
  CHECK(t.all_reduce(of({not_a_number, 2}))[1] == 0);
  CHECK(t.all_reduce(of({0, 2})) == of({1.25, 1}));
}

TEST_CASE("regression against the reference: SIGNUM does not remember a buffer that the caller overwrites") {
  auto t = feeds(pith::scaled_sign(), pith::signum_momentum(0.5), {2});
  auto g = of({2, -8});
  t.compress(g);
  g = of({1e6, 1e6});
  CHECK(t.roundtrip(of({0, 0})) == of({1.25, -1.25}));  // of (0.5, -2)
}

TEST_CASE("residuals of a rank's own part and of the mean have one sum, and differ") {
  have_one_sum<float>(pith::power_sgd(1), 1, {300, 15});
  have_one_sum<float>(pith::one_sided_power_sgd(1), 1, {300, 15});
  have_one_sum<float>(pith::top_k(0.1), 1, {300, 15});
  have_one_sum<float>(pith::scaled_sign(), 1, {300, 15});
}

TEST_CASE_TEMPLATE("own and mean residuals of low-rank codecs up to rank 32 have equal sums over the ranks, and differ",
                   In, float, double, pith::half, pith::bfloat16) {
  for (unsigned rank = 1; rank <= 32; ++rank) have_one_sum<In>(pith::power_sgd(rank, 1), rank, {80 * 72, 80});
  for (unsigned rank : {2u, 9u, 32u}) have_one_sum<In>(pith::one_sided_power_sgd(rank, 1), rank, {80 * 72, 80});
}

TEST_CASE("own_residual and mean_residual of low-rank codecs have equal bits on one rank") {
  // Of one rank both kinds are the same bits.
  auto const check = [](auto const& codec) {
    auto own = feeds(codec, pith::own_residual(), {300, 15});
    auto mean = feeds(codec, pith::mean_residual(), {300, 15});
    for (unsigned step = 0; step < 3; ++step) {
      auto const g = narrow<float>(normal_vector(300, step));
      CHECK(same_bytes(own.all_reduce(g), mean.all_reduce(g)));
      CHECK(residual_of(own.state()) == residual_of(mean.state()));
    }
  };
  check(pith::power_sgd(2));
  check(pith::one_sided_power_sgd(2));
}

TEST_CASE("own_residual of top_k keeps the same values as residual") {
  auto own = feeds(pith::top_k(0.1), pith::own_residual(), {100});
  auto usual = feeds(pith::top_k(0.1), pith::residual(), {100});
  for (unsigned step = 0; step < 3; ++step) {
    auto const g = narrow<float>(normal_vector(100, step));
    own.all_reduce(g), usual.all_reduce(g);
    CHECK(residual_of(own.state()) == residual_of(usual.state()));
  }
}

/// Exchanges four gradients on one rank. Returns the largest distance of the sum of the means, plus the residual, from
/// the sum of the gradients, in units of the rounding errors of the residuals: 2^-8 of each stored element.
template <class C>
double lost_by_rounding(C const& codec) {
  auto t = feeds(codec, pith::residual<pith::bfloat16>(), {300, 15});
  auto owed = std::vector<double>(300), errors = owed;
  for (unsigned step = 0; step < 4; ++step) {
    auto const g = narrow<float>(normal_vector(300, step));
    auto const x = t.all_reduce(g);
    auto const e = residual_of(t.state());
    for (std::size_t i = 0; i < 300; ++i) {
      owed[i] += static_cast<double>(g[i]) - x[i];
      // The sum e + g and the difference p - sent are rounded in float.
      errors[i] += std::ldexp(std::abs(e[i]), -8) + std::ldexp(std::abs(e[i]) + 2 * std::abs(x[i]) + 1, -23);
    }
  }
  auto const e = residual_of(t.state());
  double most = 0;
  for (std::size_t i = 0; i < 300; ++i) most = std::max(most, std::abs(owed[i] - e[i]) / errors[i]);
  return most;
}

TEST_CASE("means plus a residual of bfloat16 equal the gradients up to the rounding of the stored residuals") {
  for (auto const most : {lost_by_rounding(pith::top_k(0.1)), lost_by_rounding(pith::scaled_sign()),
                          lost_by_rounding(pith::qsgd<8>()), lost_by_rounding(pith::power_sgd(2))}) {
    CHECK(most <= 1);
    CHECK(most > 0.01);
  }
}

TEST_CASE("a user's policy limits its residual, and without a limit it is the library's") {
  auto limited = feeds(pith::top_k(0.1), clamped_residual(0.5), {100});
  auto unlimited = feeds(pith::top_k(0.1), clamped_residual(1e30), {100});
  auto usual = feeds(pith::top_k(0.1), pith::residual(), {100});
  for (unsigned step = 0; step < 3; ++step) {
    auto const g = narrow<float>(normal_vector(100, step));
    limited.all_reduce(g), unlimited.all_reduce(g), usual.all_reduce(g);
    CHECK(residual_of(unlimited.state()) == residual_of(usual.state()));
    auto const kept = residual_of(limited.state());
    CHECK(std::all_of(kept.begin(), kept.end(), [](double e) { return std::abs(e) <= 0.5; }));
    CHECK(kept != residual_of(usual.state()));
  }
}

TEST_CASE("every state can be saved and goes on where it was") {
  can_be_saved(pith::top_k(0.1), pith::residual(0.9, 0.5));
  can_be_saved(pith::top_k(0.1), pith::residual<pith::bfloat16>());
  can_be_saved(pith::scaled_sign(), pith::ef_sign(0.1));
  can_be_saved(pith::power_sgd(1), pith::own_residual());
  can_be_saved(pith::one_sided_power_sgd(1), pith::own_residual());
  can_be_saved(pith::top_k(0.1), pith::mean_residual());
  can_be_saved(pith::scaled_sign(), pith::signum_momentum());
  can_be_saved(pith::top_k(0.1), pith::momentum_correction(0.9, {.nesterov = true}));
  can_be_saved(pith::top_k(0.1), pith::ef21(0.5));
  can_be_saved(pith::top_k(0.1), pith::two_sided(pith::power_sgd(1)));
  can_be_saved(pith::top_k(0.1), clamped_residual(0.5));
}

TEST_CASE("an exchange has the bytes of seq on threads") {
  auto pool = pith::thread_pool(3);
  auto const same = [&](auto const& codec) {
    CAPTURE(codec.name());
    CHECK(exchanged<float>(pith::par(pool), codec, {150'003}) == exchanged<float>(pith::seq, codec, {150'003}));
  };
  with_policies(same);
}

TEST_CASE("names are texts, and arguments are checked") {
  CHECK(pith::mean_residual().name() == "mean_residual");
  CHECK(pith::own_residual(0.9, 0.5).name() == "own_residual(0.9,0.5)");
  CHECK(pith::signum_momentum().name() == "signum_momentum(0.9)");
  CHECK(pith::ef_sign(0.1).name() == "ef_sign(0.1)");
  CHECK_THROWS_WITH_AS(pith::ef_sign(0),
                       "pith::ef_sign: learning_rate must be in [1e-30, 1e30], got 0: skip the exchange in steps with "
                       "learning rate 0, which change no parameter",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::signum_momentum(1),
                       "pith::signum_momentum: beta must be in [0, 1), also as a float, got 1", std::invalid_argument);
}
