// tests/collective/ring_test.cpp — segments added up on their way around a ring.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/collective/ring.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/exchanged.hpp"
#include "support/group.hpp"
#include "support/sixteenths.hpp"
#include "support/thread_team.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace support;

namespace {

/// One segment, several, and all; the last may be short or empty.
constexpr std::size_t ring_sizes[] = {0, 1, 100, 4096, 4097, 20000, 70001};

std::vector<double> mean_of_shares(std::vector<std::vector<float>> const& x) {
  auto mean = std::vector<double>(x[0].size());
  for (auto const& own : x) {
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += static_cast<double>(own[i]) / static_cast<double>(x.size());
  }
  return mean;
}

}  // namespace

TEST_CASE("hops: every part is added to by all ranks, one after the other, and then forwarded to all but its last") {
  for (unsigned const ranks : {1u, 2u, 3u, 4u, 7u}) {
    auto const hops = pith::detail::ring_hops{ranks};
    for (unsigned part = 0; part < 2 * ranks; ++part) {
      unsigned adds = 0, forwards = 0, at = part / 2;
      for (unsigned round = part % 2; round < hops.rounds(); round += 2, at = (at + 1) % ranks) {
        CHECK(hops.sent(round, at) == part);
        CHECK(hops.received(round, (at + 1) % ranks) == part);
        CHECK(hops.begins(part, at) == (round < 2 || hops.hop(round) == ranks));
        CHECK(hops.completes(round) == (hops.completer(part) == at && hops.adds(round)));
        (hops.adds(round) ? adds : forwards) += 1;
      }
      CHECK(adds == ranks);
      CHECK(forwards + 2 == std::max(2u, ranks));
    }
  }
}

TEST_CASE("a ring of a lossless codec gives the exact mean") {
  for (unsigned const ranks : {1u, 2u, 4u}) {
    for (auto const n : ring_sizes) {
      auto g = group<float, pith::ring<pith::identity>>(pith::ring(pith::identity()), {n}, ranks);
      auto const x = all_sixteenths(n, ranks);
      CHECK(widen(replicated_mean(g.all_reduce(x))) == mean_of_shares(x));
    }
  }
}

TEST_CASE("a quantized mean is off by less than a unit for each of N roundings") {
  // Inputs are at most 16. A rounding is off by less than its unit, which is at most the largest number / 127 (1 +
  // 2^-15); the largest grows by a unit with each. Floats add less than 2^-16.
  auto const codec = pith::ring(pith::qsgd<8>(127, 128, pith::norm::max));
  auto const share = (1 + std::ldexp(1, -15)) / 127;
  for (unsigned const ranks : {1u, 2u, 3u, 5u}) {
    auto const bound = 16 * (std::pow(1 + share, ranks) - 1) + std::ldexp(1, -16);
    for (auto const n : ring_sizes) {
      auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {n}, ranks);
      auto const x = all_sixteenths(n, ranks);
      auto const off = worst(widen(replicated_mean(g.all_reduce(x))), mean_of_shares(x));
      CHECK(off <= bound);
      if (n >= 1000) CHECK(off > 0);
    }
  }
}

TEST_CASE("a short last segment may have the largest payload, below the limit of bypass") {
  // The bound is that of the previous test, for two ranks.
  auto const bound = 16 * (std::pow(1 + (1 + std::ldexp(1, -15)) / 127, 2) - 1) + std::ldexp(1, -16);
  auto const q = pith::qsgd<8>(127, 128, pith::norm::max);
  for (std::uint64_t const least : {400u, 1024u}) {
    for (std::size_t const n : {700u, 3500u}) {
      auto g = group<float, pith::ring<pith::bypass<pith::qsgd<8>>>>(pith::ring(pith::bypass(q, least)), {n}, 2);
      auto const x = all_sixteenths(n, 2);
      CHECK(worst(widen(replicated_mean(g.all_reduce(x))), mean_of_shares(x)) <= bound);
    }
  }
}

TEST_CASE("sparse and one-bit payloads travel so too, in any type, and equal ranks agree on all bits") {
  using namespace pith::options;
  auto const check = [](auto in, auto const& codec) {
    using In = decltype(in);
    for (unsigned const ranks : {2u, 3u}) {
      auto x = std::vector<std::vector<In>>();
      for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<In>(normal_vector(30000, r)));
      auto g = group<In, std::remove_cvref_t<decltype(codec)>>(codec, {30000}, ranks);
      auto const received = widen(replicated_mean(g.all_reduce(x)));
      CHECK(std::all_of(received.begin(), received.end(), [](double v) { return std::isfinite(v); }));
      CHECK(std::any_of(received.begin(), received.end(), [](double v) { return v != 0; }));
    }
  };
  check(float(), pith::ring(pith::top_k(0.1)));
  check(float(), pith::ring(pith::top_k(0.5) | pith::qsgd<8>()));
  check(float(), pith::ring(pith::random_k(0.5, none, own)));
  check(double(), pith::ring(pith::scaled_sign()));
  check(pith::half(), pith::ring(pith::qsgd<8>(127, 24)));
  check(pith::bfloat16(), pith::ring(pith::cast<pith::half>()));
}

TEST_CASE("the received sums of a ring plus all residuals equal the sum of all gradients, up to rounding") {
  constexpr std::size_t n = 20000;
  constexpr int steps = 8;
  for (unsigned const ranks : {1u, 2u, 3u, 5u}) {
    auto const codec = pith::error_feedback(pith::ring(pith::scaled_sign()));
    auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {n}, ranks);
    auto total = std::vector<double>(n), given = total;
    for (int step = 0; step < steps; ++step) {
      auto const x = all_sixteenths(n, ranks, step);
      auto const received = widen(replicated_mean(g.all_reduce(x)));
      auto const mean = mean_of_shares(x);
      for (std::size_t i = 0; i < n; ++i) total[i] += received[i], given[i] += mean[i];
    }
    double largest = 0;
    for (unsigned r = 0; r < ranks; ++r) {
      auto const rest = kept(policy_state(g.local(r)).residual);
      for (std::size_t i = 0; i < n; ++i) {
        total[i] += rest[i] / ranks;
        largest = std::max(largest, std::abs(rest[i]));
      }
    }
    // In a step a rank rounds five numbers of an element: share, sum, difference, product and residual. All are at most
    // the residual plus a gradient, times the ranks.
    CHECK(worst(total, given) <= steps * 5 * ranks * (largest + 16) * std::ldexp(1, -24));
    CHECK(largest > 1);
  }
}

TEST_CASE("the residual of a ring is a rank's gradient minus the values that its own encodings added") {
  constexpr std::size_t n = 512;  // two parts at most; the second is empty
  auto const codec = pith::error_feedback(pith::ring(pith::scaled_sign()));
  auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {n}, 2);
  auto x = std::vector<std::vector<float>>(2, std::vector<float>(n, 2));
  x[0][0] = -4;
  g.all_reduce(x);
  // Rank 0 begins: scale 1 + 2^-9 of halves, twice that sent. Rank 1 adds 1 to each.
  auto const scale = 1 + std::ldexp(1, -9);
  auto const first = kept(policy_state(g.local(0)).residual);
  CHECK(first[0] == -4 + 2 * scale);
  CHECK(first[1] == 2 - 2 * scale);
}

TEST_CASE("NaN reaches all ranks and leaves residuals alone") {
  auto const codec = pith::error_feedback(pith::ring(pith::qsgd<8>()));
  auto g = group<float, std::remove_const_t<decltype(codec)>>(codec, {9000}, 3);
  auto x = all_sixteenths(9000, 3);
  x[1][8500] = static_cast<float>(not_a_number);
  CHECK(std::isnan(replicated_mean(g.all_reduce(x))[8500]));
  for (unsigned r = 0; r < 3; ++r) {
    for (auto const v : kept(policy_state(g.local(r)).residual)) CHECK(std::isfinite(v));
  }
}

TEST_CASE("volume: 2 (N - 1) / N payloads of large tensors over each link") {
  auto const codec = pith::ring(pith::qsgd<8>());
  constexpr std::size_t n = 1 << 20;
  auto const whole = pith::payload_bytes<float>(pith::qsgd<8>(), {n});
  for (unsigned const ranks : {2u, 4u, 8u}) {
    std::size_t bytes = 0;
    for (unsigned r = 0; r < codec.rounds({n}, ranks); ++r) bytes += codec.round<float>(r, {n}, ranks).bytes();
    CHECK(bytes == 2 * (ranks - 1) * whole / ranks);
  }
}

TEST_CASE("a payload buffer of a ring has about the size of one tensor payload, and scratch memory has one segment") {
  auto const codec = pith::ring(pith::qsgd<8>());
  constexpr std::size_t n = 1 << 20;
  auto const whole = pith::payload_bytes<float>(pith::qsgd<8>(), {n});
  auto const made = codec.make_local<float>(pith::seq, pith::shape{n});
  auto const& came = std::get<1>(made.each).came;
  // Of any number of ranks: parts that are rounded up to 512 elements, the last one short.
  CHECK(came.size() >= whole);
  CHECK(came.size() <= whole + whole / 16);
  CHECK(codec.exchange_scratch_bytes<float>(pith::seq, {n}, 4) == (n / 8) * 4);
}

TEST_CASE("adding up and encoding in one pass has the bits of one pass each, NaN included, with any instructions") {
  auto const ranks = 3u;  // whose share of a float is inexact
  auto const means = [&](auto in, auto const& codec, pith::isa level) {
    using In = decltype(in);
    auto all = std::vector<std::vector<In>>(ranks);
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto const exec = pith::seq_executor(level);
      auto const id = pith::tensor_id{7, 1, static_cast<std::uint16_t>(comm.rank())};
      auto state = pith::make_state<In>(exec, codec, {20000}, id);
      auto memory = std::vector<std::byte>(pith::workspace_bytes<In>(exec, codec, {20000}, ranks));
      auto ws = pith::workspace<>(pith::span<std::byte>(memory));
      auto x = narrow<In>(normal_vector(20000, comm.rank()));
      if (comm.rank() == 1) x[19000] = pith::element_cast<In>(not_a_number);
      pith::all_reduce_mean<In>(exec, comm, codec, pith::span<In>(x), state, ws);
      all[comm.rank()] = x;
    });
    return replicated_mean(all);
  };
  auto const check = [&](auto in, auto const& inner) {
    using In = decltype(in);
    auto const whole = pith::any_codec<In, pith::seq_executor>(inner);  // which takes no source
    auto const expected = means(in, pith::ring(whole), pith::isa::baseline);
    for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
      if (level > pith::best_isa()) continue;
      CHECK(same_bytes(means(in, pith::ring(inner), level), expected));
    }
  };
  check(float(), pith::qsgd<8>());
  check(float(), pith::scaled_sign(0));
  check(pith::half(), pith::qsgd<8>());
}

TEST_CASE("every executor leaves the same bytes") {
  auto const codec = pith::error_feedback(pith::ring(pith::qsgd<8>()));
  CHECK(exchanged<float>(team_executor(3), codec, {20000}) == exchanged<float>(pith::seq, codec, {20000}));
}

TEST_CASE("a model's tensors travel together, as each would alone, two rounds under way at a time") {
  auto const codec = pith::error_feedback(pith::ring(pith::qsgd<8>()));
  CHECK(codec.depth() == 2);
  CHECK(pith::any_codec<float, pith::seq_executor>(codec).depth() == 2);
  check_travels_together(codec, 3);
}

TEST_CASE("a codec with state is refused") {
  auto const codec = pith::ring(pith::error_feedback(pith::scaled_sign()));
  CHECK_THROWS_WITH_AS(
      (pith::make_state<float>(pith::seq, codec, {100})),
      "pith::ring: codec must have no state, got ef(scaled_sign): for gradients, put feedback around the exchange, "
      "ef(ring(c, ...))",
      std::invalid_argument);
}
