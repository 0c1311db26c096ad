// tests/feedback/error_feedback_test.cpp — decoded payloads and residual add up to the gradients.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>
#include <pith/comm/self.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/one_sided_power_sgd.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/conform.hpp"
#include "support/group.hpp"
#include "support/parsed.hpp"

using namespace support;
using pith::error_feedback;

namespace {

template <class State>
std::vector<double> residual_of(State& state) {
  auto const view = std::get<1>(state.local().each).residual.view();
  auto kept = std::vector<double>(view.size());
  for (std::size_t i = 0; i < view.size(); ++i) kept[i] = static_cast<double>(view[i]);
  return kept;
}

/// Sum of decoded payloads + residual = sum of gradients over 12 steps, some with NaN and infinity. If an element of
/// the gradient or of the decoded payload is not finite, the step does not count and its residual must not change.
template <class In, class C>
void conserves(C const& codec, pith::shape dims, bool collectively) {
  CAPTURE(codec.name());
  CAPTURE(dims.n);
  CAPTURE(std::string(pith::element_name<In>()));
  using A = pith::accum<In>;
  auto const n = static_cast<std::size_t>(dims.n);
  auto const fed = error_feedback<C>(codec, pith::unverified);
  auto t = trial<In, error_feedback<C>>(fed, dims);
  auto given = std::vector<double>(n), sent = given, kept = given, bound = given;
  for (std::uint64_t step = 1; step <= 12; ++step) {
    auto g = narrow<In>(normal_vector(n, step));
    if (step % 4 == 2) g[n / 3] = pith::element_cast<In>(step % 8 == 2 ? not_a_number : infinity);
    auto const y = widen(collectively ? t.all_reduce(g) : t.roundtrip(g));
    auto now = residual_of(t.state());
    if (fed.is_lossless(dims)) now.resize(n);
    auto const x = widen(g);
    unsigned changed = 0, lost = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
        changed += now[i] != kept[i];
        continue;
      }
      given[i] += x[i];
      sent[i] += y[i];
      // p = e + g and e = p - sent are rounded once each, and what the caller sees of sent is rounded to In. The sums
      // of this oracle are rounded too, in double.
      bound[i] +=
          roundoff<A>() * (std::abs(kept[i] + x[i]) + std::abs(now[i])) + roundoff<In>() * std::abs(y[i]) + 0x1p-149;
      bound[i] += 4 * 0x1p-53 * (std::abs(given[i]) + std::abs(sent[i]));
      if (sizeof(In) == 2) bound[i] += 0x1p-25;  // subnormal halves
      lost += !(std::abs(sent[i] + now[i] - given[i]) <= bound[i] * (1 + 0x1p-20));
    }
    CHECK(changed == 0);
    CHECK(lost == 0);
    kept = now;
  }
}

template <class In, class C>
void conserves_everywhere(C const& codec) {
  for (auto const& dims : {pith::shape{1}, pith::shape{7}, pith::shape{129}, pith::shape{300, 15}}) {
    conserves<In>(codec, dims, false);
    conserves<In>(codec, dims, true);
  }
}

/// Doubles the mean.
struct announcing : pith::residual<> {
  using facets = pith::ext::extended<pith::residual<>::facets, pith::ext::after_mean>;

  std::string name() const { return "announcing"; }
  template <class In, pith::executor E>
  void after_exchange(pith::context<In, E> const& cx, auto mean, pith::no_state&, auto&) const {
    cx.exec.for_each_index(cx.dims.n, pith::detail::scale<In, In>{mean.data, mean.data, 2});
  }
};

}  // namespace

TEST_CASE("ef is the short form of error_feedback") {
  CHECK(pith::ef(pith::scaled_sign()).name() == pith::error_feedback(pith::scaled_sign()).name());
  CHECK(pith::ef(pith::top_k(0.1), pith::ef21()).name() == pith::error_feedback(pith::top_k(0.1), pith::ef21()).name());
}

TEST_CASE("two steps of scaled_sign by hand") {
  auto t = trial<float, error_feedback<pith::scaled_sign>>(error_feedback(pith::scaled_sign()), {2});
  CHECK(t.roundtrip(of({3, -1})) == of({2, -2}));
  CHECK(residual_of(t.state()) == std::vector<double>{1, 1});
  CHECK(t.roundtrip(of({0, 4})) == of({3, 3}));  // of (1, 5)
  CHECK(residual_of(t.state()) == std::vector<double>{-2, 2});
}

TEST_CASE("error_feedback takes any input of any size and type") {
  conforms(error_feedback(pith::top_k(0.1) | pith::qsgd<8>()), {{0}, {1}, {2}, {127}, {128}, {129}, {500}});
}

TEST_CASE("feedback on zeros sends zeros") {
  auto t = trial<float, error_feedback<pith::top_k<>>>(error_feedback(pith::top_k(0.1)), {100});
  for (int step = 0; step < 3; ++step) CHECK(t.roundtrip(std::vector<float>(100)) == std::vector<float>(100));
}

TEST_CASE_TEMPLATE("quantizers conserve", In, float, double, pith::half, pith::bfloat16) {
  conserves_everywhere<In>(pith::scaled_sign());
  conserves_everywhere<In>(pith::scaled_sign(8));
  conserves_everywhere<In>(pith::qsgd<8>());
  conserves_everywhere<In>(pith::qsgd<4>(7, 0, pith::norm::max));
  conserves_everywhere<In>(pith::damped(pith::qsgd<2>()));
  conserves_everywhere<In>(pith::cast<pith::half>());
  conserves_everywhere<In>(pith::cast<pith::bfloat16>());
}

TEST_CASE_TEMPLATE("sparsifiers conserve", In, float, double, pith::half, pith::bfloat16) {
  using namespace pith::options;
  conserves_everywhere<In>(pith::top_k(0.1));
  conserves_everywhere<In>(pith::random_k(0.1));
  conserves_everywhere<In>(pith::random_k(0.5, unbiased));
}

TEST_CASE_TEMPLATE("chains and low rank conserve", In, float, double, pith::half, pith::bfloat16) {
  conserves_everywhere<In>(pith::top_k(0.1) | pith::qsgd<8>());
  conserves_everywhere<In>(pith::top_k(0.1) | pith::scaled_sign());
  conserves_everywhere<In>(pith::random_k(0.1) | pith::cast<pith::half>());
  conserves_everywhere<In>(pith::power_sgd(1));
  conserves_everywhere<In>(pith::one_sided_power_sgd(1));
  conserves_everywhere<In>(pith::power_sgd(1) | pith::qsgd<8>());
}

TEST_CASE("a step on the stretch between two rates loses nothing") {
  auto const x = normal_vector(100, 5);
  auto fine = error_feedback(pith::top_k(0.5));
  auto t = trial<float, error_feedback<pith::top_k<>>>(fine, {100});
  auto const coarse = error_feedback(pith::top_k(0.1));
  auto sum = widen(t.roundtrip(narrow<float>(x)));
  // The same state, with a codec of another rate.
  auto payload = std::vector<std::byte>(pith::payload_bytes<float>(coarse, {100}));
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, coarse, {100}));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto const g = narrow<float>(x);
  auto y = std::vector<float>(100);
  pith::compress(pith::seq, coarse, pith::span<float const>(g), pith::span<std::byte>(payload), t.state(), ws);
  pith::decompress(pith::seq, coarse, pith::span<std::byte const>(payload), pith::span<float>(y), t.state(), ws);
  auto const kept = residual_of(t.state());
  unsigned sent = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    sent += y[i] != 0;
    // Entries are sent as they are: only e + g rounds, once, below 16.
    CHECK(std::abs(sum[i] + static_cast<double>(y[i]) + kept[i] - 2 * static_cast<double>(g[i])) <= 16 * 0x1p-24);
  }
  CHECK(sent == 10);
}

TEST_CASE("the residual of a contractive codec stays bounded") {
  // |e| <= G q / (1 - q), q = sqrt(1 - delta), for gradients of norm G and a codec that contracts without chance.
  auto t = trial<float, error_feedback<pith::top_k<>>>(error_feedback(pith::top_k(0.1)), {200});
  double largest = 0, most = 0;
  for (std::uint64_t step = 1; step <= 200; ++step) {
    auto const g = normal_vector(200, 1000 + step);
    largest = std::max(largest, std::sqrt(square(g)));
    t.roundtrip(narrow<float>(g));
    most = std::max(most, std::sqrt(square(residual_of(t.state()))));
  }
  auto const q = std::sqrt(1 - 0.1);
  CHECK(most <= largest * q / (1 - q));
}

TEST_CASE("an exact codec keeps no residual") {
  auto t = trial<float, error_feedback<pith::identity>>(error_feedback(pith::identity()), {10});
  CHECK(residual_of(t.state()).empty());
  auto const x = narrow<float>(normal_vector(10, 6));
  CHECK(t.roundtrip(x) == x);
  CHECK(t.all_reduce(x) == x);
  auto small = trial<float, error_feedback<pith::power_sgd>>(error_feedback(pith::power_sgd(4)), {10, 2});
  CHECK(residual_of(small.state()).empty());
  CHECK(small.all_reduce(x) == x);
}

TEST_CASE("ranks that hold the same keep the same residual as one") {
  auto const check = [](auto const& codec, auto... unchecked) {
    using C = std::remove_cvref_t<decltype(codec)>;
    using F = decltype(error_feedback(codec, unchecked...));
    CAPTURE(codec.name());
    auto one = trial<float, F>(F(codec, unchecked...), {300, 15});
    auto four = trial<float, F>(F(codec, unchecked...), {300, 15});
    static_assert(pith::detail::exchangeable<C, float, pith::seq_executor>);
    for (std::uint64_t step = 1; step <= 4; ++step) {
      auto const g = narrow<float>(normal_vector(300, step));
      one.all_reduce(g);
      four.all_reduce(g, echo_communicator<4>());
      CHECK(residual_of(one.state()) == residual_of(four.state()));
    }
  };
  check(pith::top_k(0.1));
  check(pith::random_k(0.1));
  check(pith::power_sgd(1));
  check(pith::one_sided_power_sgd(1));
  check(pith::scaled_sign());
  check(pith::cast<pith::bfloat16>());
  check(pith::qsgd<8>(), pith::unverified);
}

TEST_CASE("a sum in flight is rounded, which no residual contains") {
  constexpr std::size_t n = 1000;
  constexpr unsigned ranks = 4;
  auto const codec = error_feedback(pith::cast<pith::half>());
  auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {n}, ranks);
  auto missing = std::vector<double>(n), bound = missing;
  for (std::uint64_t step = 0; step < 10; ++step) {
    auto x = std::vector<std::vector<float>>();
    for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<float>(normal_vector(n, 10 * step + r)));
    auto const mean = widen(g.all_reduce(x)[0]);
    for (std::size_t i = 0; i < n; ++i) {
      missing[i] -= ranks * mean[i];
      for (auto const& own : x) {
        auto const v = static_cast<double>(own[i]);
        missing[i] += v;
        // Ranks - 1 sums in half. A rank sends at most |g| + |e|, where |e| <= 2^-10 (|g| + |e|); float rounds twice.
        bound[i] += (ranks - 1) * 0x1p-11 * (std::abs(v) * (1 + 0x1p-9) + 0x1p-8) + 0x1p-22 * (std::abs(v) + 1);
      }
    }
  }
  for (unsigned r = 0; r < ranks; ++r) {
    auto const rest = kept(policy_state(g.local(r)).residual);
    for (std::size_t i = 0; i < n; ++i) missing[i] -= rest[i];
  }
  std::size_t beyond = 0, rounded = 0;
  for (std::size_t i = 0; i < n; ++i) {
    beyond += !(std::abs(missing[i]) <= bound[i]);
    rounded += std::abs(missing[i]) > 0x1p-13;
  }
  CHECK(beyond == 0);
  CHECK(rounded > 0);
}

TEST_CASE("a chain that does not contract at this size is refused with its remedy") {
  auto const codec = error_feedback(pith::top_k(0.01) | pith::qsgd<3>());
  CHECK_THROWS_AS(pith::make_state<float>(pith::seq, codec, {100000}), std::invalid_argument);
  auto message = std::string();
  try {
    pith::make_state<float>(pith::seq, codec, {100000});
  } catch (std::invalid_argument const& e) {
    message = e.what();
  }
  CHECK(message.find("pith::error_feedback: top_k(0.01)|qsgd<3> must have delta above 0 at n = 100000, got -2.5") == 0);
  CHECK(message.find("wrap its unbiased stage in damped(s), or write error_feedback(c, unverified)") !=
        std::string::npos);
  CHECK_NOTHROW(pith::make_state<float>(pith::seq, codec, {200}));  // two values: omega is 1/18
  CHECK_NOTHROW(pith::make_state<float>(
      pith::seq, error_feedback(pith::top_k(0.01) | pith::qsgd<3>(), pith::unverified), {100000}));
  CHECK_NOTHROW(
      pith::make_state<float>(pith::seq, error_feedback(pith::top_k(0.01) | pith::damped(pith::qsgd<3>())), {100000}));
}

TEST_CASE("a policy may settle with the mean") {
  using codec = error_feedback<pith::scaled_sign, announcing>;
  auto t = trial<float, codec>(codec(pith::scaled_sign(), announcing()), {2});
  CHECK(t.all_reduce(of({1, -3})) == of({4, -4}));
  CHECK(t.codec().name() == "ef(scaled_sign,announcing)");
}

TEST_CASE("the name of error_feedback states its codec, and unverified where its contraction is not checked") {
  CHECK(error_feedback(pith::top_k(0.01) | pith::qsgd<8>()).name() == "ef(top_k(0.01)|qsgd<8>)");
  CHECK(error_feedback(pith::qsgd<8>(), pith::unverified).name() == "ef(qsgd<8>,unverified)");
}

TEST_CASE("a step of numbers whose squares overflow is forgotten") {
  for (std::string const text :
       {"ef(top_k(0.05)|qsgd<8>)", "ef(qsgd<8>)", "ef(power_sgd(2))", "ef(top_k(0.05),momentum_correction(0.5))",
        "ef(scaled_sign(64))", "ef(top_k(0.1)|scaled_sign,residual(0.5,1))"}) {
    CAPTURE(text);
    constexpr std::size_t n = 660;
    auto comm = pith::self_communicator();
    auto const codec = pith::parse<float>(text);
    auto state = pith::make_state<float>(pith::seq, codec, {n, 20});
    auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {n, 20}, 1));
    auto ws = pith::workspace<>(pith::span<std::byte>(memory));
    auto finite = true;
    for (int step = 0; step < 30; ++step) {
      auto g = std::vector<float>(n, step == 0 ? 1e38f : 1);
      pith::all_reduce_mean<float>(pith::seq, comm, codec, pith::span<float>(g), state, ws);
      finite = std::all_of(g.begin(), g.end(), [](float v) { return std::isfinite(v); });
    }
    CHECK(finite);
  }
}
