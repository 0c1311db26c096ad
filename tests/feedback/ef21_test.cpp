// tests/feedback/ef21_test.cpp — replicated estimates, and the differences that update them.
#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "support/conform.hpp"
#include "support/group.hpp"

using namespace support;
using pith::ef21;
using pith::error_feedback;

namespace {

template <class C>
using estimated = error_feedback<C, ef21>;

/// After each step what all received is the agreed estimate, and that is the mean of the ranks' own.
template <class In, class C>
void agrees(C const& codec, double eta, pith::shape dims) {
  CAPTURE(codec.name());
  CAPTURE(dims.n);
  using A = pith::accum<In>;
  unsigned const ranks = 3;
  auto const n = static_cast<std::size_t>(dims.n);
  auto all = group<In, estimated<C>>(estimated<C>(codec, ef21(eta)), dims, ranks);
  double most = 0, bound = 0;
  for (std::uint64_t step = 1; step <= 8; ++step) {
    auto g = std::vector<std::vector<In>>();
    for (unsigned r = 0; r < ranks; ++r) g.push_back(narrow<In>(normal_vector(n, 10 * step + r)));
    auto const x = all.all_reduce(g);
    auto const replicated = kept(policy_state(all.replicated(0)).estimate);
    auto const own = [&](unsigned r) { return kept(policy_state(all.local(r)).estimate); };
    unsigned wrong = 0;
    for (unsigned r = 0; r < ranks; ++r) {
      CHECK(kept(policy_state(all.replicated(r)).estimate) == replicated);
      CHECK(same_bytes(x[r], x[0]));
    }
    auto const a = own(0), b = own(1), c = own(2);
    for (auto const& e : {a, b, c})
      for (auto const v : e) most = std::max(most, std::abs(v));
    // A payload is below 2 `most`. A step rounds three estimates, each with weight 1/3, two sums below 6 `most` that are
    // divided by 3, by a third that is rounded, and the replicated estimate: (1 + 10 / 3 + 4 + 1) `most`.
    bound += 10 * roundoff<A>() * most;
    for (std::size_t i = 0; i < n; ++i) {
      wrong += !(std::abs(replicated[i] - (a[i] + b[i] + c[i]) / 3) <= bound);
      wrong += widen(x[0])[i] != pith::element_cast<double>(pith::element_cast<In>(static_cast<A>(replicated[i])));
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("three steps by hand: of two entries the one that is farther off is sent") {
  auto t = trial<float, estimated<pith::top_k<>>>(estimated<pith::top_k<>>(pith::top_k(0.5), ef21()), {2});
  CHECK(t.all_reduce(of({1, 3})) == of({0, 3}));
  CHECK(t.all_reduce(of({1, 3})) == of({1, 3}));
  CHECK(t.all_reduce(of({2, 3})) == of({2, 3}));
}

TEST_CASE_TEMPLATE("the agreed estimate is the mean of the ranks' own", In, float, double, pith::half, pith::bfloat16) {
  agrees<In>(pith::top_k(0.1), 1, {129});
  agrees<In>(pith::scaled_sign(), 0.25, {129});
}

TEST_CASE("the agreed estimate is the mean of the ranks' own for summed payloads and for one element") {
  agrees<float>(pith::power_sgd(1), 1, {300, 15});
  agrees<float>(pith::top_k(0.1) | pith::qsgd<8>(), 0.5, {1});
  agrees<float>(pith::top_k(0.1), 1, {1});
}

TEST_CASE("the distance to a constant gradient shrinks by 1 - delta a step") {
  auto t = trial<float, estimated<pith::top_k<>>>(estimated<pith::top_k<>>(pith::top_k(0.1), ef21()), {200});
  auto const g = narrow<float>(normal_vector(200, 3));
  auto left = square(widen(g));
  for (int step = 0; step < 10; ++step) {
    auto const now = square(minus(widen(t.all_reduce(g)), widen(g)));
    CHECK(now <= 0.9 * left * (1 + 0x1p-20));  // delta = k / n; an entry that is sent may be off by two roundings
    left = now;
  }
  CHECK(left <= 200 * 0x1p-46);
}

TEST_CASE("ef21 with a running mean on one rank and a lossless codec equals SGD with momentum") {
  auto t = trial<float, estimated<pith::identity>>(estimated<pith::identity>(pith::identity(), ef21(0.5)), {3});
  CHECK(t.all_reduce(of({4, -8, 0})) == of({2, -4, 0}));
  CHECK(t.all_reduce(of({4, 0, 1})) == of({3, -2, 0.5}));
  CHECK(t.all_reduce(of({0, 0, 0})) == of({1.5, -1, 0.25}));
}

TEST_CASE("an element whose mean is NaN restarts at zero on all ranks, which then agree again") {
  auto all = group<float, estimated<pith::top_k<>>>(estimated<pith::top_k<>>(pith::top_k(1), ef21()), {3}, 2);
  all.all_reduce({of({1, 2, 3}), of({3, 2, 1})});
  auto const x = all.all_reduce({of({1, not_a_number, 3}), of({3, 2, 1})});
  CHECK(std::isnan(x[0][1]));
  CHECK(x[0][0] == 2);
  for (unsigned r = 0; r < 2; ++r) {
    CHECK(kept(policy_state(all.replicated(r)).estimate)[1] == 0);
    CHECK(kept(policy_state(all.local(r)).estimate)[1] == 0);
  }
  CHECK(all.all_reduce({of({1, 5, 3}), of({3, 7, 1})})[1] == of({2, 6, 2}));
}

TEST_CASE("a new loss scale rescales the ranks' own estimates and the agreed one") {
  auto one = trial<float, estimated<pith::top_k<>>>(estimated<pith::top_k<>>(pith::top_k(0.2), ef21(0.25)), {20});
  auto two = trial<float, estimated<pith::top_k<>>>(estimated<pith::top_k<>>(pith::top_k(0.2), ef21(0.25)), {20});
  auto twice = [](std::vector<double> x) {
    for (auto& v : x) v *= 2;
    return x;
  };
  for (std::uint64_t step = 1; step < 4; ++step) {
    one.all_reduce(narrow<float>(normal_vector(20, step)));
    two.all_reduce(narrow<float>(twice(normal_vector(20, step))));
  }
  one.codec().rescale(pith::seq, 2, one.state().replicated(), one.state().local());
  auto const g = narrow<float>(twice(normal_vector(20, 4)));
  CHECK(one.all_reduce(g) == two.all_reduce(g));  // powers of two scale floats exactly
}

TEST_CASE("ef21 around a lossless codec keeps no estimates") {
  auto t = trial<float, estimated<pith::identity>>(estimated<pith::identity>(pith::identity(), ef21()), {20});
  CHECK(policy_state(t.state().local()).estimate.size() == 0);
  CHECK(policy_state(t.state().replicated()).estimate.size() == 0);
  auto const g = narrow<float>(normal_vector(20, 1));
  CHECK(t.all_reduce(g) == g);
}

TEST_CASE("it takes any input of any size and type") {
  conforms(error_feedback(pith::top_k(0.1), ef21(0.5)), {{0}, {1}, {2}, {129}});
}

TEST_CASE("the name of ef21 states an eta other than 1, and an eta of 0 is refused") {
  CHECK(ef21().name() == "ef21");
  CHECK(ef21(0.1).name() == "ef21(0.1)");
  CHECK_THROWS_WITH_AS(ef21(0), "pith::ef21: eta must be in (0, 1], got 0", std::invalid_argument);
}
