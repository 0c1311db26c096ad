// tests/collective/ok_top_k_test.cpp — the largest sums of all ranks' largest entries.
#include <pith/collective/ok_top_k.hpp>
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
#include <cmath>
#include <numeric>
#include <vector>

using namespace support;

namespace {

/// The k of largest magnitude, the others zero: a stable sort.
std::vector<double> largest(std::vector<double> x, std::size_t k) {
  auto order = std::vector<std::size_t>(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(x[a]) > std::abs(x[b]); });
  for (auto i = k; i < x.size(); ++i) x[order[i]] = 0;
  return x;
}

double sum_of_sizes(std::vector<double> const& x) {
  return std::accumulate(x.begin(), x.end(), 0.0, [](double sum, double v) { return sum + std::abs(v); });
}

using packed_top_k = pith::top_k<pith::packed_indices>;

}  // namespace

TEST_CASE("ok_top_k on one rank equals top_k") {
  for (std::size_t const n : {0u, 1u, 2u, 9u, 100u, 30000u}) {
    for (auto const density : {1e-9, 0.1, 1.0}) {
      auto const x = narrow<float>(normal_vector(n, 5));
      auto one = group<float, pith::ok_top_k>(pith::ok_top_k(density), {n}, 1);
      CHECK(same_bytes(one.all_reduce({x})[0], trial<float, pith::top_k<>>(pith::top_k(density), {n}).roundtrip(x)));
    }
  }
}

TEST_CASE("ok_top_k encodes the same payload as top_k outside an exchange") {
  auto const x = narrow<pith::half>(normal_vector(1000, 5));
  CHECK(same_bytes(trial<pith::half, pith::ok_top_k>(pith::ok_top_k(0.1), {1000}).compress(x),
                   trial<pith::half, packed_top_k>(packed_top_k(0.1), {1000}).compress(x)));
}

TEST_CASE("a worked example: two ranks, four elements of eight") {
  // k = 4, two to a region of four elements. Rank 0 picks 1, 3, 6, 7 and rank 1 picks 1, 2, 4, 6; the sums are 9 at 1,
  // 4 at 2, -3 at 3; 7 at 4, 0 at 6, 5 at 7: the largest four of five.
  auto g = group<float, pith::ok_top_k>(pith::ok_top_k(0.5), {8}, 2);
  auto const received = replicated_mean(g.all_reduce({of({0, 5, 1, -3, 1, 0, 6, 5}), of({1, 4, 4, 0, 7, 0, -6, 1})}));
  CHECK(same_bytes(received, of({0, 4.5, 2, 0, 3.5, 0, 0, 2.5})));
  // Each rank would halve its own four: regions begin at 6 and at 4, in the mean at 5.
  CHECK(g.replicated(0).words.data()[0] == 2);
  CHECK(g.replicated(1).words.data()[1] == 5);
}

TEST_CASE("all of all are added up: duplicates, zeros, few ranks and many") {
  for (unsigned const ranks : {1u, 2u, 3u, 4u, 5u}) {
    for (std::size_t const n : {0u, 1u, 2u, 3u, 5u, 8u, 1000u}) check_adds_up(pith::ok_top_k(1), ranks, n);
  }
}

TEST_CASE("the mean of ok_top_k is the top k of the mean of each rank's top k where regions are even") {
  // Ranks are permuted copies: each region of 256 has the same values, so that all pieces fill just so.
  constexpr std::size_t n = 1024;
  for (unsigned const ranks : {2u, 4u}) {
    auto x = std::vector<std::vector<float>>(ranks, std::vector<float>(n));
    auto sum = std::vector<double>(n);
    for (unsigned r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < n; ++i)
        x[r][i] =
            static_cast<float>(static_cast<int>((i % 256 * 5 + r * 3) % 257 * 4 + i / 256) * (i % 2 == 0 ? 1 : -1)) /
            16;
      auto const own = largest(widen(x[r]), 64);
      for (std::size_t i = 0; i < n; ++i) sum[i] += own[i] / ranks;
    }
    auto g = group<float, pith::ok_top_k>(pith::ok_top_k(0.0625), {n}, ranks);
    auto const received = widen(replicated_mean(g.all_reduce(x)));
    CHECK(std::count_if(received.begin(), received.end(), [](double v) { return v != 0; }) == 64);
    CHECK(sum_of_sizes(received) == sum_of_sizes(largest(sum, 64)));
    for (std::size_t i = 0; i < n; ++i) CHECK((received[i] == 0 || received[i] == sum[i]));
  }
}

TEST_CASE("a received value is the mean of some ranks' own largest: entries that found no room are missing from sums") {
  // The first eighth is larger, so that all crowd in the first region. Sums of sixteenths are exact, by four too.
  constexpr std::size_t n = 1024, k = 64;
  constexpr unsigned ranks = 4;
  auto const given = all_sixteenths(n, ranks);
  auto own = std::vector<std::vector<double>>();
  for (auto const& x : given) own.push_back(largest(widen(x), k));
  auto g = group<float, pith::ok_top_k>(pith::ok_top_k(static_cast<double>(k) / n), {n}, ranks);
  auto const received = widen(replicated_mean(g.all_reduce(given)));
  std::size_t partial = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const sum = [&](unsigned of) {
      double s = 0;
      for (unsigned r = 0; r < ranks; ++r) s += (of >> r & 1) != 0 ? own[r][i] : 0;
      return s / ranks;
    };
    auto subsets = std::vector<double>();
    for (unsigned of = 0; of < 1u << ranks; ++of) subsets.push_back(sum(of));
    CHECK(std::find(subsets.begin(), subsets.end(), received[i]) != subsets.end());
    partial += received[i] != 0 && received[i] != subsets.back();
  }
  CHECK(partial > 0);
  CHECK(nonzeros(received) <= k);
}

TEST_CASE("padding touches nothing: element 0 is zero unless it was sent") {
  for (unsigned const ranks : {2u, 3u, 5u}) {
    auto x = std::vector<std::vector<float>>(ranks, std::vector<float>(50));
    x[1][49] = 3;  // all that there is; every other pair is a zero, and pieces of other regions are empty
    auto g = group<float, pith::ok_top_k>(pith::ok_top_k(0.2), {50}, ranks);
    auto expected = std::vector<float>(50);
    expected[49] = 3 * (1 / static_cast<float>(ranks));
    CHECK(same_bytes(replicated_mean(g.all_reduce(x)), expected));
    x[0][0] = 2;
    expected[0] = 2 * (1 / static_cast<float>(ranks));
    CHECK(same_bytes(replicated_mean(g.all_reduce(x)), expected));
  }
}

TEST_CASE("the received sums of ok_top_k plus all residuals equal the sum of all gradients under error feedback") {
  for (unsigned const ranks : {1u, 2u, 3u, 5u}) {
    for (std::size_t const n : {1u, 7u, 1000u}) check_conserves(pith::ok_top_k(0.03), ranks, n);
  }
}

TEST_CASE("entries that find no room in a step of ok_top_k are sent in later steps, and the regions adapt") {
  // All mass in one region of four, for both ranks alike: two of four pairs fit in the first step.
  auto x = std::vector<float>(64);
  for (std::size_t i = 0; i < 8; ++i) x[i] = static_cast<float>(8 + i);
  auto const codec = pith::error_feedback(pith::ok_top_k(0.125));
  auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {64}, 4);
  auto seen = std::vector<double>(64);
  for (int step = 0; step < 6; ++step) {
    auto const received = widen(replicated_mean(g.all_reduce(std::vector<std::vector<float>>(4, x))));
    for (std::size_t i = 0; i < 64; ++i) seen[i] += received[i];
  }
  for (std::size_t i = 0; i < 8; ++i) CHECK(seen[i] > 0);
  // Regions have followed: each holds two of the eight.
  for (std::uint32_t r = 1; r < 4; ++r) CHECK(std::get<0>(g.replicated(0).each).words.data()[r] == 2 * r);
}

TEST_CASE("pieces without new bounds take turns by step") {
  auto const step = std::uint64_t{3};
  std::uint32_t indices[5] = {10, 11, 12, 13, 14}, sent[2] = {};
  float values[5] = {1, 2, 3, 4, 5};
  std::uint32_t starts[2] = {0, 5};
  alignas(8) std::byte bytes[16] = {};
  auto const to = pith::detail::pair_pieces<float>(bytes, 2);
  pith::seq.for_each_index(2, pith::detail::send_pairs<float>{{values, indices}, starts, &step, to, sent, 2});
  // The third step begins at pair 6 mod 5.
  CHECK(sent[0] == 11);
  CHECK(sent[1] == 12);
  CHECK(to.values(0)[1] == 3);
  CHECK(to.indices(0)[1] == 12);
}

TEST_CASE("NaN and infinity reach all ranks and leave residuals alone") {
  check_spreads_what_is_no_number(pith::ok_top_k(0.1), 3);
}

TEST_CASE_TEMPLATE("all elements travel in their type", In, double, pith::half, pith::bfloat16) {
  for (unsigned const ranks : {2u, 3u}) {
    auto x = std::vector<std::vector<In>>();
    for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<In>(widen(sixteenths(200, r))));
    auto g = group<In, pith::ok_top_k>(pith::ok_top_k(1), {200}, ranks);
    auto const received = widen(replicated_mean(g.all_reduce(x)));
    for (std::size_t i = 0; i < 200; ++i) {
      double sum = 0;
      for (unsigned r = 0; r < ranks; ++r) sum += pith::element_cast<double>(x[r][i]);
      // The mean of what adds up exactly is rounded twice: share, and product; then to the element's type.
      CHECK(std::abs(received[i] - sum / ranks) <= std::abs(sum / ranks) * 3 * roundoff<In>());
    }
  }
}

TEST_CASE("volume: at most 6 k (N - 1) / N words, a rounding of k for each piece, and a bound to and from each owner") {
  for (unsigned const ranks : {1u, 2u, 4u, 7u, 16u, 64u}) {
    for (std::size_t const n : {100u, 100000u}) {
      auto const codec = pith::ok_top_k(0.01);
      auto const k = codec.kept(n);
      auto const words = [&](unsigned round) {
        auto const moves = codec.round<float>(round, {n}, ranks);
        CHECK(moves.bytes() % 8 == 0);
        return (ranks - 1) * moves.bytes() / 4;
      };
      // Rounding k up to whole pairs adds less than 2 words to a sent piece and 4 to a returned one; a bound and padding,
      // 2 to each. With fewer entries than ranks an owner needs capacity for one.
      auto const regions = std::min<std::uint64_t>(k, ranks);
      CHECK(words(0) + words(1) <= 6 * k * (ranks - 1) / regions + (6 + 4) * (ranks - 1));
    }
  }
}

TEST_CASE("scratch: the sums of a tensor, and lists of a few k; never a tensor for each rank") {
  auto const codec = pith::ok_top_k(0.01);
  constexpr std::size_t n = 100000, k = 1000;
  // Lists of at most 2 (k + N) values and indices and their k largest; a selection takes a few values for each of k.
  for (unsigned const ranks : {1u, 2u, 8u, 64u})
    CHECK(codec.exchange_scratch_bytes<float>(pith::seq, {n}, ranks) <= 4 * n + 8 * (2 * (k + ranks) + k) + 64 * k);
}

TEST_CASE("wrong bytes write nothing outside of the tensor") {
  constexpr std::size_t n = 40;
  check_stays_within(pith::ok_top_k(0.25), n, 3, [&](auto& state) {
    auto const* const words = state.replicated().words.data();
    CHECK(words[0] == 3);
    CHECK(std::is_sorted(words + 1, words + 3));
    CHECK(words[2] <= n);
  });
}

TEST_CASE("an owner may speak of its own region only") {
  constexpr unsigned ranks = 2;
  auto const codec = pith::ok_top_k(0.5);
  auto const dims = pith::shape{8};
  auto state = pith::make_state<float>(pith::seq, codec, dims, {7, 1, 0});
  auto const moves = codec.round<float>(1, dims, ranks);
  alignas(8) std::byte bytes[96] = {};
  REQUIRE(moves.bytes() * ranks <= sizeof bytes);
  auto const told = pith::detail::pair_pieces<float>(bytes, 4, moves.bytes());
  for (unsigned owner = 0; owner < ranks; ++owner) {
    for (std::uint32_t j = 0; j < 4; ++j) {
      told.values(owner)[j] = static_cast<float>(owner + 1);
      told.indices(owner)[j] = 2 * j;
    }
  }
  auto scratch = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims, ranks));
  auto ws = pith::workspace<>(pith::span<std::byte>(scratch));
  auto x = std::vector<float>(8);
  codec.absorb(state.context_on(pith::seq, ws, ranks), 1,
               pith::received<>{pith::span<std::byte const>(bytes, 96), moves.bytes()},
               pith::value_view<float>{x.data(), 8}, state.replicated(), state.local());
  CHECK(same_bytes(x, of({1, 0, 1, 0, 2, 0, 2, 0})));
}

TEST_CASE("every executor leaves the same bytes") {
  auto const codec = pith::error_feedback(pith::ok_top_k(0.05));
  for (std::size_t const n : {100u, 20000u}) {
    auto const expected = exchanged<float>(pith::seq, codec, {n});
    CHECK(exchanged<float>(team_executor(3), codec, {n}) == expected);
  }
}

TEST_CASE("the mean of all ranks' EF21 estimates equals the received mean of ok_top_k") {
  check_estimates(pith::ok_top_k(0.1), 500);
}

TEST_CASE("a model's tensors travel together, as each would alone") {
  check_travels_together(pith::error_feedback(pith::ok_top_k(0.05)), 3);
}

TEST_CASE("bounds that no step made harm nothing") {
  struct damage final : pith::field_visitor {
    std::uint32_t word;
    explicit damage(std::uint32_t w) : word(w) {}
    void visit(void* data, std::size_t bytes) override {
      auto* const words = static_cast<std::uint32_t*>(data);
      // The first word is the number of regions, and is believed.
      for (std::size_t i = 0; i < bytes / sizeof word; ++i)
        words[i] = i == 0 ? 4 : word * static_cast<std::uint32_t>(i);
    }
  };
  constexpr std::size_t n = 1000;
  for (std::uint32_t const word : {0u, 1u, 333u, 0x40000000u, 0xffffffffu, 0xfffffc18u}) {
    CAPTURE(word);
    pith::run_ranks(4, [&](pith::thread_communicator comm) {
      auto const codec = pith::ok_top_k(0.05);
      auto state = pith::make_state<float>(pith::seq, codec, {n}, {7, 0, static_cast<std::uint16_t>(comm.rank())});
      auto damaged = damage(word);
      state.replicated().fields(damaged);
      auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {n}, 4));
      auto ws = pith::workspace<>(pith::span<std::byte>(memory));
      for (int step = 0; step < 3; ++step) {
        auto g = narrow<float>(normal_vector(n, 5 + comm.rank()));
        pith::all_reduce_mean<float>(pith::seq, comm, codec, pith::span<float>(g), state, ws);
        CHECK(std::all_of(g.begin(), g.end(), [](float v) { return std::isfinite(v); }));
      }
    });
  }
}
