// tests/feedback/two_sided_test.cpp — nothing is lost on the way back either.
#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "support/group.hpp"

using namespace support;
using pith::error_feedback;
using pith::two_sided;

namespace {

/// Sum of received + server's e + mean of the ranks' e = sum of mean gradients over 12 steps of 3 ranks.
template <class In, class C, class S, class F = pith::residual<>>
void conserves(C const& codec, S const& server, pith::shape dims, F const& worker = F()) {
  auto const both = error_feedback(codec, two_sided<S, F>(server, worker));
  CAPTURE(both.name());
  CAPTURE(dims.n);
  using A = pith::accum<In>;
  unsigned const ranks = 3;
  auto const n = static_cast<std::size_t>(dims.n);
  auto all = group<In, std::remove_cvref_t<decltype(both)>>(both, dims, ranks);
  auto given = std::vector<double>(n), got = given, bound = given, before = given;
  for (std::uint64_t step = 1; step <= 12; ++step) {
    auto g = std::vector<std::vector<In>>();
    for (unsigned r = 0; r < ranks; ++r) g.push_back(narrow<In>(normal_vector(n, 10 * step + r)));
    auto const x = all.all_reduce(g);
    auto const back = kept(policy_state(all.replicated(0)).residual);
    auto e = std::vector<double>(n), after = e, size = before;
    for (unsigned r = 0; r < ranks; ++r) {
      CHECK(same_bytes(x[r], x[0]));
      CHECK(kept(policy_state(all.replicated(r)).residual) == back);
      auto const own = kept(policy_state(all.local(r)).residual), of_rank = widen(g[r]);
      for (std::size_t i = 0; i < n; ++i) {
        e[i] += own[i] / ranks, given[i] += of_rank[i] / ranks;
        after[i] += std::abs(own[i]), size[i] += std::abs(of_rank[i]);
      }
    }
    unsigned lost = 0;
    auto const y = widen(x[0]);
    for (std::size_t i = 0; i < n; ++i) {
      got[i] += y[i];
      after[i] += std::abs(back[i]), size[i] += after[i];
      // A rank rounds p, its e, and the sum of its payload; the server a share, a product, p and its e.
      // No term exceeds the old residual, the gradient and the new residual together.
      bound[i] +=
          7 * roundoff<A>() * size[i] + roundoff<In>() * std::abs(y[i]) + (sizeof(In) == 2 ? 0x1p-25 : 0x1p-149);
      lost += !(std::abs(got[i] + back[i] + e[i] - given[i]) <= bound[i] * (1 + 0x1p-20));
    }
    CHECK(lost == 0);
    before = after;
  }
}

}  // namespace

TEST_CASE("two steps by hand: the mean is sent back as signs") {
  auto const codec = error_feedback(pith::identity(), two_sided(pith::scaled_sign()));
  auto all = group<float, std::remove_cvref_t<decltype(codec)>>(codec, {2}, 2);
  CHECK(all.all_reduce({of({1, -1}), of({5, -1})})[0] == of({2, -2}));  // of (3, -1)
  CHECK(kept(policy_state(all.replicated(1)).residual) == std::vector<double>{1, 1});
  CHECK(all.all_reduce({of({0, 4}), of({0, 4})})[1] == of({3, 3}));  // of (1, 5)
}

TEST_CASE_TEMPLATE("nothing is lost on either way", In, float, double, pith::half, pith::bfloat16) {
  conserves<In>(pith::scaled_sign(), pith::scaled_sign(), {129});
  conserves<In>(pith::top_k(0.1), pith::top_k(0.2) | pith::qsgd<8>(), {129});
}

TEST_CASE("low-rank and random codecs, mean residuals and one-element tensors conserve gradients in both directions") {
  conserves<float>(pith::power_sgd(1), pith::power_sgd(2), {300, 15});
  conserves<float>(pith::random_k(0.2), pith::random_k(0.3), {129});
  conserves<float>(pith::top_k(0.1), pith::scaled_sign(), {129}, pith::mean_residual());
  conserves<float>(pith::scaled_sign(), pith::top_k(0.5), {1});
}

TEST_CASE("the server's codec must contract, by type and by shape") {
  auto const loose = error_feedback(pith::top_k(0.1), two_sided(pith::top_k(0.01) | pith::qsgd<3>()));
  CHECK_THROWS_WITH_AS(pith::make_state<float>(pith::seq, loose, {100000}),
                       doctest::Contains("pith::two_sided: top_k(0.01)|qsgd<3> must have delta above 0 at n = 100000"),
                       std::invalid_argument);
  CHECK_NOTHROW(pith::make_state<float>(pith::seq, loose, {200}));
}

TEST_CASE("an element whose mean is NaN keeps its residual on the server") {
  auto const codec = error_feedback(pith::identity(), two_sided(pith::top_k(0.5)));
  auto t = trial<float, std::remove_cvref_t<decltype(codec)>>(codec, {2});
  CHECK(t.all_reduce(of({1, 3})) == of({0, 3}));
  CHECK(std::isnan(t.all_reduce(of({1, not_a_number}))[1]));
  CHECK(kept(policy_state(t.state().replicated()).residual) == std::vector<double>{2, 0});
}

TEST_CASE("a new loss scale rescales both sides") {
  auto const codec = error_feedback(pith::top_k(0.5), two_sided(pith::top_k(0.25)));
  auto t = trial<float, std::remove_cvref_t<decltype(codec)>>(codec, {4});
  CHECK(t.all_reduce(of({1, 2, 3, 4})) == of({0, 0, 0, 4}));
  codec.rescale(pith::seq, 0.5, t.state().replicated(), t.state().local());
  CHECK(kept(policy_state(t.state().local()).residual) == std::vector<double>{0.5, 1, 0, 0});
  CHECK(kept(policy_state(t.state().replicated()).residual) == std::vector<double>{0, 0, 1.5, 0});
}

TEST_CASE("the ranks' policy is applied to the mean after the server's codec") {
  auto const codec = error_feedback(pith::identity(), two_sided(pith::scaled_sign(), pith::ef_sign(0.5)));
  CHECK(codec.name() == "ef(identity,two_sided(scaled_sign,ef_sign(0.5)))");
  auto t = trial<float, std::remove_cvref_t<decltype(codec)>>(codec, {2});
  CHECK(t.all_reduce(of({4, -8})) == of({6, -6}));  // of half of it, (2, -4), the signs times 3, doubled
}

TEST_CASE("a mean of half that is too large for half arrives in later steps, in the unit of gradients") {
  // Each element of the sum, 100,000, exceeds the largest half. In the unit of ef_sign, it is 10,000.
  constexpr std::size_t n = 100;
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<pith::half>(
      pith::seq, comm, {{"a", {n}}},
      pith::error_feedback(pith::top_k(0.01), pith::two_sided(pith::identity(), pith::ef_sign(0.1))));
  auto sum = std::vector<double>(n);
  constexpr int steps = 400;
  for (int step = 0; step < steps; ++step) {
    auto g = std::vector<pith::half>(n, pith::half(step < 100 ? 1000.f : 0.f));
    exchange.all_reduce_mean(g);
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(static_cast<float>(g[i]));
  }
  // Each step rounds floats of at most 10,000 in three sums and products of the residuals. One unit counts ten times.
  for (auto const s : sum) CHECK(std::abs(s - 100'000) <= 3 * steps * 1e5 * 0x1p-24);
}
