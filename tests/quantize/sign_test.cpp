// tests/quantize/sign_test.cpp — signs, and what most of many ranks say, gathered and summed.
#include <pith/comm/threads.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/summed_sign.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <mutex>

#include "support/conform.hpp"
#include "support/fed_back.hpp"

using namespace support;
using pith::sign;
using pith::summed_sign;
using pith::ties;

namespace {

/// A vote by the rules: zero and NaN count as positive.
int vote(double v) { return v < 0 ? -1 : 1; }

double judged(int sum, ties even) { return sum > 0 ? 1 : sum < 0 ? -1 : even == ties::positive ? 1 : 0; }

/// Whole numbers, many of them zero, so that votes are even often.
std::vector<double> gradient(std::uint64_t n, unsigned rank) {
  auto random = std::mt19937_64(31 * rank + 7);
  auto x = std::vector<double>(n);
  for (auto& v : x) v = static_cast<double>(random() % 5) - 2;
  return x;
}

/// The mean that every rank receives.
template <class In, class C>
std::vector<double> exchanged(C const& codec, unsigned ranks, std::uint64_t n) {
  auto all = std::vector<double>();
  auto guard = std::mutex();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto x = narrow<In>(gradient(n, comm.rank()));
    auto state = pith::make_state<In>(pith::seq, codec, {n}, {7, 1, static_cast<std::uint16_t>(comm.rank())});
    auto memory = std::vector<std::byte>(pith::workspace_bytes<In>(pith::seq, codec, {n}, ranks));
    auto ws = pith::workspace<>(pith::span<std::byte>(memory));
    pith::all_reduce_mean(pith::seq, comm, codec, pith::span<In>(x), state, ws);
    auto const lock = std::lock_guard(guard);
    if (comm.rank() == 0) all = widen(x);
  });
  return all;
}

template <class In, class C>
void elects(C const& codec, unsigned ranks, std::uint64_t n, ties even) {
  CAPTURE(codec.name());
  CAPTURE(ranks);
  CAPTURE(n);
  auto expected = std::vector<double>(n);
  auto votes = std::vector<int>(n);
  for (unsigned rank = 0; rank < ranks; ++rank) {
    auto const x = gradient(n, rank);
    for (std::size_t i = 0; i < n; ++i) votes[i] += vote(x[i]);
  }
  for (std::size_t i = 0; i < n; ++i) expected[i] = judged(votes[i], even);
  CHECK(exchanged<In>(codec, ranks, n) == expected);
}

/// Ranks' payloads of one element each, `against` of `ranks` of them against, aggregated.
double counted(unsigned ranks, unsigned against, ties even) {
  auto bytes = std::vector<std::uint8_t>(std::size_t{8} * ranks);
  for (unsigned r = 0; r < against; ++r) bytes[std::size_t{8} * ((r * 7919 + 3) % ranks)] |= 1;
  auto set = 0u;
  for (auto const b : bytes) set += b;
  REQUIRE(set == against);
  float x = 9;
  auto none = std::vector<std::byte>(64);
  auto ws = pith::workspace<>(pith::span<std::byte>(none));
  auto const one = pith::encoded<pith::packed<1> const>{{bytes.data(), 1, nullptr}, {}};
  auto const cx = pith::context<float, pith::seq_executor>{pith::seq, {}, {1}, ws};
  sign(even).decode_ranks(cx, {one, 8, ranks}, 1, {&x, 1});
  return static_cast<double>(x);
}

}  // namespace

TEST_CASE_TEMPLATE("six numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, sign>(sign(), {6});
  auto const payload = t.compress(of<In>({1, -2, 3, 0, -0.0, -1e-4}));
  CHECK(payload == std::vector{std::byte{0b100010}});
  CHECK(widen(t.decompress(payload)) == std::vector<double>{1, -1, 1, 1, 1, -1});
}

TEST_CASE("zero, NaN and infinities vote") {
  CHECK(decoded(sign(), std::vector<double>(300, 0)) == std::vector<double>(300, 1));
  CHECK(decoded(sign(), {not_a_number, -not_a_number, infinity, -infinity, 4.9e-324, -0x1p-149}) ==
        std::vector<double>{1, 1, 1, -1, 1, -1});
  CHECK(decoded<double>(sign(), {-4.9e-324}) == std::vector<double>{-1});
}

TEST_CASE("regression against the reference: a payload has one bit per element, not one byte") {
  CHECK(pith::payload_bytes<float>(sign(), {0}) == 0);
  CHECK(pith::payload_bytes<float>(sign(), {1}) == 1);
  CHECK(pith::payload_bytes<double>(sign(), {1001}) == 126);
  CHECK(pith::payload_bytes<float>(summed_sign(), {1001}) == 126);
}

TEST_CASE_TEMPLATE("any size decodes to the signs", In, float, double, pith::half, pith::bfloat16) {
  for (std::uint64_t const n : {1u, 7u, 8u, 9u, 63u, 64u, 65u, 511u, 513u, 5000u}) {
    auto const x = normal_vector(n, 61);
    auto signs = x;
    for (auto& v : signs) v = vote(v);
    CHECK(decoded<In>(sign(), x) == signs);
    CHECK(decoded<In>(summed_sign(), x) == signs);
  }
}

TEST_CASE("counts of every number of votes and ranks, and one less and one more than half") {
  for (unsigned const ranks : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 15u, 16u, 17u, 31u, 64u, 127u, 128u, 255u}) {
    for (unsigned against = 0; against <= ranks; ++against) {
      for (auto const even : {ties::positive, ties::zero}) {
        CHECK(counted(ranks, against, even) == judged(static_cast<int>(ranks) - 2 * static_cast<int>(against), even));
      }
    }
  }
  for (unsigned const against : {32766u, 32767u, 32768u}) {
    CHECK(counted(65534, against, ties::zero) == judged(65534 - 2 * static_cast<int>(against), ties::zero));
  }
}

TEST_CASE("an exchange yields the majority vote of the ranks for each element") {
  for (auto const even : {ties::positive, ties::zero}) {
    for (unsigned const ranks : {1u, 2u, 3u, 4u, 7u}) {
      for (std::uint64_t const n : {0u, 1u, 63u, 64u, 65u, 1000u}) {
        elects<float>(sign(even), ranks, n, even);
        elects<float>(summed_sign(even), ranks, n, even);
      }
    }
    elects<double>(sign(even), 4, 700, even);
    elects<pith::half>(sign(even), 4, 700, even);
    elects<pith::bfloat16>(summed_sign(even), 4, 700, even);
  }
}

TEST_CASE("the sums of more than 127 ranks do not fit in a byte, and travel in four") {
  CHECK(summed_sign().round<float>(0, {10}, 127) ==
        pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::i8, 10});
  CHECK(summed_sign().round<float>(0, {10}, 128) ==
        pith::transfer{pith::transport::all_reduce_sum, pith::element_kind::i32, 10});
  auto const x = narrow<float>(normal_vector(100, 62));
  auto const one = trial<float, summed_sign>(summed_sign(), {100}).roundtrip(x);
  CHECK(trial<float, summed_sign>(summed_sign(), {100}).all_reduce(x, echo_communicator<127>()) == one);
  CHECK(trial<float, summed_sign>(summed_sign(), {100}).all_reduce(x, echo_communicator<200>()) == one);
  CHECK(trial<float, sign>(sign(), {100}).all_reduce(x, echo_communicator<200>()) == one);
}

TEST_CASE("error feedback conserves the gradients and keeps equal residuals for sign and summed_sign") {
  auto const x = narrow<float>(normal_vector(100, 63));
  CHECK(kept_of(sign(), x, 16) == kept_of(summed_sign(), x, 16));
}

TEST_CASE("any payload decodes to signs") {
  auto random = std::mt19937_64(64);
  auto t = trial<float, sign>(sign(), {77});
  for (auto const v : t.decompress(random_bytes(t.payload_bytes(), random))) CHECK(std::abs(v) == 1);
}

TEST_CASE("names") {
  CHECK(sign().name() == "sign");
  CHECK(sign(ties::zero).name() == "sign(zero)");
  CHECK(summed_sign().name() == "summed_sign");
  CHECK(summed_sign(ties::zero).name() == "summed_sign(zero)");
}
