// tests/collective/two_shot_test.cpp — parts of a tensor, added up by one rank each.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/roundtrip.hpp"
#include "support/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

using namespace support;

namespace {

/// What rank `rank` holds in a step: whole sixteenths, whose sums over a few ranks are exact.
std::vector<float> gradient(std::size_t n, unsigned rank, int step = 0) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = static_cast<float>(static_cast<int>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 33) - 16) / 16;
  }
  return g;
}

/// The mean of one step; checks that all ranks receive the same bits.
template <class C>
std::vector<float> mean(C const& codec, unsigned ranks, std::size_t n, std::uint64_t rows = 1) {
  auto all = std::vector<float>();
  auto guard = std::mutex();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto const dims = pith::shape{n, rows};
    auto state = pith::make_state<float>(pith::seq, codec, dims, {7, 1, static_cast<std::uint16_t>(comm.rank())});
    auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims, ranks));
    auto ws = pith::workspace<>(pith::span<std::byte>(memory));
    auto x = gradient(n, comm.rank());
    pith::all_reduce_mean(pith::seq, comm, codec, pith::span<float>(x), state, ws);
    auto const lock = std::lock_guard(guard);
    if (all.empty()) all = x;
    CHECK(same_bytes(all, x));
  });
  return all;
}

std::vector<double> true_mean(unsigned ranks, std::size_t n, int step = 0) {
  auto sum = std::vector<double>(n);
  for (unsigned r = 0; r < ranks; ++r) {
    auto const g = gradient(n, r, step);
    for (std::size_t i = 0; i < n; ++i) sum[i] += static_cast<double>(g[i]) / ranks;
  }
  return sum;
}

/// What an exchange needs, and no all_to_all.
struct gathering_communicator : private pith::self_communicator {
  using self_communicator::all_gather;
  using self_communicator::all_reduce;
  using self_communicator::rank;
  using self_communicator::size;
};
static_assert(pith::communicator<gathering_communicator, pith::seq_executor> &&
              !pith::calls_of<gathering_communicator, pith::seq_executor>.all_to_all);

constexpr std::size_t two_shot_sizes[] = {0, 1, 7, 8, 9, 100, 1000, 4099};

}  // namespace

TEST_CASE("two_shot of a lossless codec gives the exact mean") {
  for (unsigned const ranks : {1u, 2u, 4u}) {
    for (auto const n : two_shot_sizes) {
      auto const expected = true_mean(ranks, n);
      CHECK(widen(mean(pith::two_shot(pith::identity()), ranks, n)) == expected);
      CHECK(widen(mean(pith::two_shot(pith::rated(pith::top_k(0.9)).at(1)), ranks, n)) == expected);
      CHECK(widen(mean(pith::two_shot(pith::rated(pith::gaussian_k(0.9)).at(1)), ranks, n)) == expected);
    }
  }
}

TEST_CASE("a second codec may send parts as they are that are larger so than the tensor compressed") {
  auto const kept = pith::error_feedback(pith::scaled_sign());
  for (auto const n : {36u, 96u, 100u}) {
    auto const expected = true_mean(4, n);
    CHECK(widen(mean(pith::two_shot(pith::identity(), pith::bypass(kept, 40)), 4, n)) == expected);
    CHECK(widen(mean(pith::two_shot(pith::identity(), pith::error_feedback(pith::power_sgd(1))), 4, n, 4)) == expected);
  }
  CHECK(mean(pith::two_shot(pith::identity(), pith::bypass(kept, 30)), 3, 100).size() == 100);  // parts of 40, 40, 20
}

TEST_CASE("a short last part may alone be below the limit of bypass") {
  // 15 elements are parts of 8, which are compressed to 5 bytes, and of 7, which are sent as 28 bytes.
  auto const sparse = pith::error_feedback(pith::top_k(0.01));
  auto const x = widen(mean(pith::two_shot(pith::identity(), pith::bypass(sparse, 8)), 2, 15));
  auto const expected = true_mean(2, 15);
  for (std::size_t i = 8; i < 15; ++i) CHECK(x[i] == expected[i]);
}

TEST_CASE("parts begin at multiples of a granule, and the last may be short or empty") {
  CHECK(pith::tensor_parts(1000, 3, 128).size == 384);
  auto const parts = pith::tensor_parts(100, 4, 64);
  CHECK(parts.dims(0).n == 64);
  CHECK(parts.dims(1).n == 36);
  CHECK(parts.first(2) == 100);
  CHECK(parts.dims(2).n == 0);
  CHECK(pith::tensor_parts(0, 4, 64).dims(3).n == 0);
}

TEST_CASE("a quantized mean is off by less than a unit of each rounding") {
  // A rounding is off by less than its unit, which is at most max / 127 (1 + 2^-15); all inputs are at most 1, means
  // of them decode to at most 1 + a unit, and a float's sum of five adds less than 2^-20.
  auto const unit = (1 + std::ldexp(1, -15)) / 127;
  auto const bound = unit + (1 + unit) * unit + std::ldexp(1, -20);
  auto const codec = pith::two_shot(pith::qsgd<8>(127, 128, pith::norm::max));
  for (unsigned const ranks : {1u, 3u, 5u}) {
    for (auto const n : two_shot_sizes) {
      auto const got = widen(mean(codec, ranks, n)), expected = true_mean(ranks, n);
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
      CHECK(worst <= bound);
      if (n >= 1000) CHECK(worst > 0);
    }
  }
}

TEST_CASE("sparse and one-bit payloads travel so too, and equal ranks agree on all bits") {
  for (auto const n : two_shot_sizes) {
    CHECK(mean(pith::two_shot(pith::top_k(0.1)), 3, n).size() == n);
    CHECK(mean(pith::two_shot(pith::top_k(0.5) | pith::qsgd<8>(), pith::qsgd<8>()), 3, n).size() == n);
  }
}

TEST_CASE("the received means plus worker and server residuals equal the mean gradients with feedback on both sides") {
  constexpr unsigned ranks = 3;
  constexpr std::size_t n = 1000;
  constexpr int steps = 12;
  auto const codec =
      pith::error_feedback(pith::two_shot(pith::scaled_sign(), pith::error_feedback(pith::scaled_sign())));
  auto total = std::vector<double>(n), given = total;
  auto guard = std::mutex();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto const dims = pith::shape{n};
    auto state = pith::make_state<float>(pith::seq, codec, dims, {7, 1, static_cast<std::uint16_t>(comm.rank())});
    auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims, ranks));
    auto own = std::vector<double>(n);
    for (int step = 0; step < steps; ++step) {
      auto ws = pith::workspace<>(pith::span<std::byte>(memory));
      auto x = gradient(n, comm.rank(), step);
      pith::all_reduce_mean(pith::seq, comm, codec, pith::span<float>(x), state, ws);
      for (std::size_t i = 0; i < n; ++i) own[i] += static_cast<double>(x[i]);
    }
    auto const& worker = std::get<1>(state.local().each).residual;
    auto const& server = std::get<1>(std::get<1>(std::get<0>(state.local().each).each).state.each).residual;
    auto const part = pith::tensor_parts(n, ranks, 8);
    auto const lock = std::lock_guard(guard);
    for (std::size_t i = 0; i < n; ++i) {
      if (comm.rank() == 0) total[i] += own[i];
      total[i] += static_cast<double>(worker.data()[i]) / ranks;
    }
    for (std::size_t i = 0; i < part.dims(comm.rank()).n; ++i)
      total[part.first(comm.rank()) + i] += static_cast<double>(server.data()[i]);
  });
  for (int step = 0; step < steps; ++step) {
    auto const mean = true_mean(ranks, n, step);
    for (std::size_t i = 0; i < n; ++i) given[i] += mean[i];
  }
  // A step rounds a handful of sums of numbers below 32: 8 roundings of 2^-24 of them.
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(total[i] - given[i]));
  CHECK(worst <= steps * 8 * 32 * std::ldexp(1, -24));
}

TEST_CASE("a model's tensors travel together, as each would alone") {
  auto const codec = pith::two_shot(pith::qsgd<8>());
  auto const tensors = std::vector<pith::tensor_spec>{{"a", {1000}}, {"b", {0}}, {"c", {37}}, {"d", {4099}}};
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto ex = pith::make_exchange<float>(pith::seq, comm, tensors, [&](pith::tensor_spec const&) { return codec; },
                                         {.seed = 7});
    auto together = gradient(ex.size(), comm.rank());
    auto alone = together;
    ex.all_reduce_mean(pith::span<float>(together));
    std::size_t first = 0;
    for (std::uint32_t t = 0; t < tensors.size(); ++t) {
      auto const& dims = tensors[t].dims;
      auto state = pith::make_state<float>(pith::seq, codec, dims, {7, t, static_cast<std::uint16_t>(comm.rank())});
      auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, dims, 3));
      auto ws = pith::workspace<>(pith::span<std::byte>(memory));
      pith::all_reduce_mean(pith::seq, comm, codec, pith::span<float>(alone).subspan(first, dims.n), state, ws);
      first += dims.n;
    }
    CHECK(same_bytes(together, alone));
    // Parts of 336, 16 and 1,368 elements with a scale for each 128; each begins at a multiple of 8 bytes.
    std::size_t const piece = (336 + 3 * 4 + 4) + (16 + 4 + 4) + (1368 + 11 * 4 + 4);
    CHECK(ex.traffic().scattered == 3 * piece);
    CHECK(ex.traffic().gathered == piece);
  });
}

TEST_CASE("its text can be parsed, inside feedback too") {
  for (auto const* text : {"two_shot(qsgd<8>)", "two_shot(top_k(0.1)|qsgd<8>,qsgd<8>)", "ef(two_shot(scaled_sign))",
                           "ef(two_shot(scaled_sign,ef(scaled_sign)))", "bypass(ef(two_shot(scaled_sign)),1024)"}) {
    CHECK(pith::parse<float>(text).name() == text);
  }
  auto const typed = pith::two_shot(pith::scaled_sign(), pith::error_feedback(pith::scaled_sign()));
  CHECK(same_bytes(mean(pith::parse<float>(typed.name()), 3, 1000), mean(typed, 3, 1000)));
  auto const buckets = pith::two_shot(pith::qsgd<8>(), pith::error_feedback(pith::block_int<4>(32)));
  CHECK(same_bytes(mean(pith::parse<float>(buckets.name()), 3, 1000), mean(buckets, 3, 1000)));
}

TEST_CASE("two_shot refuses feedback that changes the mean around its second codec") {
  auto const check = [](auto const& policy) {
    auto const fed = pith::error_feedback(pith::scaled_sign(), policy);
    auto const words = "pith::two_shot: the feedback of the codec of means must not change means, got " + fed.name() +
                       ": put this policy around the exchange, ef(two_shot(c, d), policy)";
    CHECK_THROWS_WITH_AS((pith::make_state<float>(pith::seq, pith::two_shot(pith::identity(), fed), {100})),
                         words.c_str(), std::invalid_argument);
    auto const erased = pith::any_codec<float>(pith::bypass(pith::any_codec<float>(fed), 1));
    CHECK_THROWS_AS(
        (pith::make_state<float>(pith::seq, pith::two_shot(pith::any_codec<float>(pith::identity()), erased), {100})),
        std::invalid_argument);
  };
  check(pith::ef_sign(0.25));
  check(pith::ef21());
  check(pith::two_sided(pith::scaled_sign()));
  CHECK_THROWS_AS(
      pith::make_state<float>(pith::seq, pith::parse<float>("two_shot(identity,ef(scaled_sign,ef_sign(0.25)))"), {100}),
      std::invalid_argument);
}

TEST_CASE("a first codec with state is refused, and so is a state of another rank") {
  auto const codec = pith::two_shot(pith::error_feedback(pith::scaled_sign()), pith::scaled_sign());
  CHECK_THROWS_WITH_AS(
      (pith::make_state<float>(pith::seq, codec, {100})),
      "pith::two_shot: codec must have no state, got ef(scaled_sign): for gradients, put feedback around the exchange, "
      "ef(two_shot(c, ...))",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      pith::run_ranks(2,
                      [](pith::thread_communicator comm) {
                        auto state = pith::make_state<float>(pith::seq, pith::identity(), {1});
                        auto ws = pith::workspace<>(pith::span<std::byte>());
                        auto x = std::vector<float>(1);
                        if (comm.rank() == 1)
                          pith::all_reduce_mean(pith::seq, comm, pith::identity(), pith::span<float>(x), state, ws);
                      }),
      "pith::all_reduce_mean: the state's rank must be 1, got 0: pass the communicator's rank to make_state",
      std::invalid_argument);
}

TEST_CASE("a communicator without all_to_all is refused before anything is sent or kept") {
  auto const codec = pith::error_feedback(pith::two_shot(pith::scaled_sign()));
  auto const words = std::string(
      "ef(two_shot(scaled_sign)) needs a communicator with all_to_all(exec, span<std::byte const>, span<std::byte>)");
  auto comm = gathering_communicator();
  CHECK_NOTHROW(pith::make_exchange<float>(pith::seq, comm, {{"w", {100}}}, pith::identity()));
  CHECK_THROWS_WITH_AS(pith::make_exchange<float>(pith::seq, comm, {{"w", {100}}}, codec),
                       ("pith::gradient_exchange: " + words).c_str(), std::invalid_argument);
  auto erased = pith::any_communicator(comm);
  CHECK_NOTHROW(pith::make_exchange<float>(pith::seq, erased, {{"w", {100}}}, pith::identity()));
  CHECK_THROWS_WITH_AS(pith::make_exchange<float>(pith::seq, erased, {{"w", {100}}}, codec),
                       ("pith::gradient_exchange: " + words).c_str(), std::invalid_argument);
  using C = std::remove_const_t<decltype(codec)>;
  auto t = trial<float, C>(codec, {100}), fresh = trial<float, C>(codec, {100});
  CHECK_THROWS_WITH_AS(t.all_reduce(gradient(100, 0), comm), ("pith::all_reduce_mean: " + words).c_str(),
                       std::invalid_argument);
  for (int step = 0; step < 2; ++step)
    CHECK(t.all_reduce(gradient(100, 0, step)) == fresh.all_reduce(gradient(100, 0, step)));
}
