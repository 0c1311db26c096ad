// tests/collective/g_top_k_test.cpp — the largest entries, merged pair by pair.
#include <pith/collective/g_top_k.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>

#include <doctest/doctest.h>

#include "support/exchanged.hpp"
#include "support/garbage.hpp"
#include "support/group.hpp"
#include "support/sixteenths.hpp"
#include "support/thread_team.hpp"
#include "support/vectors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

using namespace support;

namespace {

using entries = std::map<std::size_t, float>;

/// The k of largest magnitude, which differ in it.
entries largest(entries const& from, std::size_t k) {
  auto order = std::vector<std::pair<std::size_t, float>>(from.begin(), from.end());
  std::sort(order.begin(), order.end(), [](auto a, auto b) { return std::abs(a.second) > std::abs(b.second); });
  order.resize(std::min(order.size(), k));
  return {order.begin(), order.end()};
}
entries merged(entries a, entries const& b, std::size_t k) {
  for (auto const& [i, v] : b) a[i] += v;
  return largest(a, k);
}
/// Ranks of a power of two merge by halves, after those beyond it have folded in.
std::vector<float> expected(std::vector<std::vector<float>> const& x, std::size_t k) {
  auto held = std::vector<entries>(x.size());
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t i = 0; i < x[r].size(); ++i) held[r][i] = x[r][i];
    held[r] = largest(held[r], k);
  }
  auto const inner = std::bit_floor(x.size());
  for (auto r = inner; r < x.size(); ++r) held[r - inner] = merged(held[r - inner], held[r], k);
  for (std::size_t step = 1; step < inner; step *= 2) {
    for (std::size_t r = 0; r < inner; r += 2 * step) held[r] = merged(held[r], held[r + step], k);
  }
  auto mean = std::vector<float>(x[0].size());
  for (auto const& [i, v] : held[0]) mean[i] = v * (1 / static_cast<float>(x.size()));
  return mean;
}

}  // namespace

TEST_CASE("g_top_k on one rank equals top_k, and compress encodes the payload of top_k") {
  for (std::size_t const n : {0u, 1u, 2u, 9u, 100u, 30000u}) {
    for (auto const density : {1e-9, 0.1, 1.0}) {
      auto const x = narrow<float>(normal_vector(n, 5));
      auto one = group<float, pith::g_top_k>(pith::g_top_k(density), {n}, 1);
      auto top = trial<float, pith::top_k<pith::packed_indices>>(pith::top_k(density, pith::packed_indices()), {n});
      CHECK(same_bytes(one.all_reduce({x})[0], top.roundtrip(x)));
      CHECK(same_bytes(trial<float, pith::g_top_k>(pith::g_top_k(density), {n}).compress(x), top.compress(x)));
    }
  }
}

TEST_CASE("a worked example: three ranks, two elements of four") {
  // Rank 2 folds into 0: 5 at 0, 7 at 1 and 2 at 3; 2 is dropped. With rank 1: 5 at 0, 4 at 1 and 8 at 2.
  auto g = group<float, pith::g_top_k>(pith::g_top_k(0.5), {4}, 3);
  auto const received = replicated_mean(g.all_reduce({of({5, 3, 0, 1}), of({0, -3, 8, 0}), of({1, 4, 0, 2})}));
  auto const share = 1 / 3.0f;
  CHECK(same_bytes(received, std::vector<float>{5 * share, 0, 8 * share, 0}));
}

TEST_CASE("the mean that g_top_k gives on 2 to 8 ranks equals the pairwise merges of an oracle") {
  for (unsigned const ranks : {2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
    for (std::size_t const n : {1u, 2u, 5u, 300u, 20000u}) {
      auto x = std::vector<std::vector<float>>();
      for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<float>(normal_vector(n, 10 + r)));
      auto const codec = pith::g_top_k(0.05);
      auto g = group<float, pith::g_top_k>(codec, {n}, ranks);
      CHECK(same_bytes(replicated_mean(g.all_reduce(x)), expected(x, codec.kept(n))));
    }
  }
}

TEST_CASE("all of all are added up: duplicates, zeros, padding") {
  for (unsigned const ranks : {1u, 2u, 3u, 4u, 5u}) {
    for (std::size_t const n : {0u, 1u, 2u, 3u, 5u, 8u, 1000u}) check_adds_up(pith::g_top_k(1), ranks, n);
  }
}

TEST_CASE("the received sums of g_top_k plus all residuals equal the sum of all gradients under error feedback") {
  for (unsigned const ranks : {1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
    for (std::size_t const n : {1u, 7u, 1000u}) check_conserves(pith::g_top_k(0.03), ranks, n);
  }
}

TEST_CASE("an entry that was dropped on its way stays in the residual, though its element arrives from others") {
  // Ranks 0 and 1 drop 1 at 0; ranks 2 and 3 send 6 there, which all receive.
  auto const codec = pith::error_feedback(pith::g_top_k(0.25));
  auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {4}, 4);
  auto const received =
      replicated_mean(g.all_reduce({of({1, 0, 0, 0}), of({0, 2, 0, 0}), of({3, 0, 0, 0}), of({3, 0, 0, 0})}));
  CHECK(same_bytes(received, of({1.5, 0, 0, 0})));
  CHECK(kept(policy_state(g.local(0)).residual) == std::vector<double>{1, 0, 0, 0});
  CHECK(kept(policy_state(g.local(1)).residual) == std::vector<double>{0, 2, 0, 0});
  CHECK(kept(policy_state(g.local(2)).residual) == std::vector<double>(4));
}

TEST_CASE("NaN and infinity reach all ranks and leave residuals alone") {
  check_spreads_what_is_no_number(pith::g_top_k(0.1), 5);
}

TEST_CASE_TEMPLATE("all elements travel in their type", In, double, pith::half, pith::bfloat16) {
  for (unsigned const ranks : {2u, 3u}) {
    auto x = std::vector<std::vector<In>>();
    for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<In>(widen(sixteenths(200, r))));
    auto g = group<In, pith::g_top_k>(pith::g_top_k(1), {200}, ranks);
    auto const received = widen(replicated_mean(g.all_reduce(x)));
    for (std::size_t i = 0; i < 200; ++i) {
      double sum = 0, sizes = 0;
      for (unsigned r = 0; r < ranks; ++r) sum += pith::element_cast<double>(x[r][i]);
      for (unsigned r = 0; r < ranks; ++r) sizes += std::abs(pith::element_cast<double>(x[r][i]));
      // Each of two sums is rounded, then the share, the product, and the result.
      CHECK(std::abs(received[i] - sum / ranks) <= sizes / ranks * 5 * roundoff<In>());
    }
  }
}

TEST_CASE("volume: log2(N) rounds of k pairs, two more where N is no power of two") {
  auto const codec = pith::g_top_k(0.01);
  for (unsigned const ranks : {2u, 4u, 8u, 64u}) {
    CHECK(codec.rounds({10000}, ranks) == static_cast<unsigned>(std::bit_width(ranks)) - 1);
    for (unsigned r = 0; r < codec.rounds({10000}, ranks); ++r) {
      auto const moves = codec.round<float>(r, {10000}, ranks);
      CHECK(moves == pith::transfer{pith::transport::pairwise, pith::element_kind::bytes, 800, 1u << r});
    }
  }
  CHECK(codec.rounds({10000}, 1) == 1);
  CHECK(codec.rounds({10000}, 5) == 4);
  CHECK(codec.round<float>(0, {10000}, 5).distance == 4);
  CHECK(codec.round<float>(1, {10000}, 5).distance == 1);
  CHECK(codec.round<float>(2, {10000}, 5).distance == 2);
  CHECK(codec.round<float>(3, {10000}, 5).distance == 4);
  CHECK(codec.round<float>(3, {10000}, 5).count == 1200);
}

TEST_CASE("scratch: the sums of a tensor, and lists of three k, for any number of ranks") {
  auto const codec = pith::g_top_k(0.01);
  constexpr std::size_t n = 100000, k = 1000;
  for (unsigned const ranks : {1u, 2u, 8u, 64u})
    CHECK(codec.exchange_scratch_bytes<float>(pith::seq, {n}, ranks) <= 4 * n + 8 * 3 * k + 64 * k);
}

TEST_CASE("wrong bytes write nothing outside of the tensor") {
  constexpr std::size_t n = 40;
  auto const codec = pith::g_top_k(0.25);
  for (unsigned const ranks : {2u, 3u, 5u}) {
    check_stays_within(codec, n, ranks, [&](auto& state) {
      auto const* const sent = state.local().sent.data();
      for (std::size_t j = 0; j < codec.kept(n); ++j) CHECK((sent[j] < n || sent[j] == pith::detail::no_index));
    });
  }
}

TEST_CASE("more entries than an index of a merge can count are refused") {
  CHECK_THROWS_WITH_AS(pith::g_top_k(1).make_local<float>(pith::seq, pith::shape{std::uint64_t{1} << 31}),
                       "pith::g_top_k: entries must be below 2^31, got 2147483648: split the tensor",
                       std::invalid_argument);
}

TEST_CASE("every executor leaves the same bytes") {
  auto const codec = pith::error_feedback(pith::g_top_k(0.05));
  for (std::size_t const n : {100u, 20000u})
    CHECK(exchanged<float>(team_executor(3), codec, {n}) == exchanged<float>(pith::seq, codec, {n}));
}

TEST_CASE("the mean of all ranks' EF21 estimates equals the received mean of g_top_k") {
  check_estimates(pith::g_top_k(0.1), 500);
}

TEST_CASE("a model's tensors travel together, as each would alone") {
  check_travels_together(pith::error_feedback(pith::g_top_k(0.05)), 3);
}

TEST_CASE("a communicator that cannot send is refused before anything is sent or kept") {
  auto comm = echo_communicator<2>();
  auto const codec = pith::g_top_k(0.1);
  auto t = trial<float, pith::g_top_k>(codec, {100});
  CHECK_THROWS_WITH_AS(t.all_reduce(sixteenths(100, 0), comm),
                       "pith::all_reduce_mean: g_top_k(0.1) needs a communicator with send_recv(exec, "
                       "span<std::byte const>, unsigned, span<std::byte>, unsigned)",
                       std::invalid_argument);
}
