// tests/reports/huge_counts_test.cpp — counts of any size. A codec refuses a bucket size, matrix rank or block size, or
// treats a bucket that is larger than the tensor as the whole tensor, alone and in every exchange. In
// bitsandbytes#1071, a block size of 2^64 crashed a quantizer.
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/all_reduce_mean.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/one_bit.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/registered_texts.hpp"
#include "support/vectors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr auto largest_count = ~std::uint64_t{0};

std::string replaced(std::string text, char mark, std::string const& by) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size()))
    text.replace(at, 1, by);
  return text;
}

/// Returns the registry's examples of stages and exchanges, once per argument that is a whole number. # replaces this
/// argument.
std::vector<std::string> registered_counts() {
  auto marked = std::vector<std::string>();
  auto const add = [&](std::string const& text) {
    for (auto const& one : support::with_argument(text, "0123456789", "#")) marked.push_back(one);
  };
  support::for_each_example(pith::stage_listings, add);
  support::for_each_example(pith::exchange_listings, add);
  return marked;
}

/// The mean of two ranks in the second step, and the number of bytes that a rank allocates for the calls. Without a
/// mean if the codec is refused.
struct outcome {
  std::vector<float> mean;
  std::size_t bytes = 0;
  bool is_refused = false;
};

template <class C>
void run_rank(pith::thread_communicator comm, C const& codec, std::uint64_t n, outcome& made) {
  auto state = pith::make_state<float>(pith::seq, codec, {n}, {7, 1, static_cast<std::uint16_t>(comm.rank())});
  auto const bytes = pith::workspace_bytes<float>(pith::seq, codec, {n}, comm.size());
  REQUIRE(bytes < std::size_t{1} << 24);
  auto memory = std::vector<std::byte>(bytes);
  auto comms = pith::make_sub_communicators<float>(comm, codec, {n});
  for (unsigned step = 0; step < 2; ++step) {
    auto ws = pith::workspace<>(pith::span<std::byte>(memory));
    auto x = support::narrow<float>(support::normal_vector(n, 10 * step + comm.rank()));
    pith::all_reduce_mean<float>(pith::seq, comms, codec, pith::span<float>(x), state, ws);
    if (comm.rank() == 0) made.mean = x;
  }
  if (comm.rank() == 0) made.bytes = bytes + pith::payload_bytes<float>(codec, {n});
}

template <class C>
outcome outcome_of(C const& codec, std::uint64_t n) {
  auto made = outcome();
  pith::run_ranks(2, [&](pith::thread_communicator comm) { run_rank(comm, codec, n, made); });
  return made;
}

outcome outcome_of(std::string const& text, std::uint64_t n) {
  auto made = outcome();
  try {
    return outcome_of(pith::parse<float>(text), n);
  } catch (std::invalid_argument const& refused) {
    CHECK(std::string(refused.what()).starts_with("pith::"));
    made.is_refused = true;
  }
  return made;
}

bool all_finite(std::vector<float> const& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

void check_counts(std::string const& text, std::uint64_t n) {
  for (std::uint64_t const value : {std::uint64_t{0}, std::uint64_t{1}, n - 1, n, n + 1, (n + 7) / 8 * 8,
                                    std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 63,
                                    (std::uint64_t{1} << 63) + 8, largest_count, largest_count - 7}) {
    auto const full = replaced(text, '#', std::to_string(value));
    CAPTURE(full);
    CAPTURE(n);
    auto const made = outcome_of(full, n);
    CHECK((made.is_refused || made.mean.size() == n));
    CHECK(all_finite(made.mean));
  }
}

/// make(bucket) makes a codec, or the text of a codec. A larger bucket must have the means and the memory of a bucket
/// that is hardly larger than the tensor. Both are multiples of 256, because hadamard emits a multiple of its tile.
template <class Make>
void check_buckets(Make const& make, std::uint64_t n) {
  auto const whole = std::max<std::uint64_t>(256, (n + 255) / 256 * 256);
  auto const expected = outcome_of(make(whole), n);
  REQUIRE(!expected.is_refused);
  for (std::uint64_t const bucket : {whole + 256, std::uint64_t{1} << 31, std::uint64_t{1} << 32,
                                     std::uint64_t{1} << 63, (std::uint64_t{1} << 63) + 8, largest_count - 7}) {
    CAPTURE(bucket);
    CAPTURE(n);
    auto const made = outcome_of(make(bucket), n);
    REQUIRE(!made.is_refused);
    CHECK(made.mean == expected.mean);
    CHECK(made.bytes == expected.bytes);
  }
}

/// Checks the buckets of a quantizer in each exchange. make(bucket) makes the quantizer.
template <class Make>
void check_typed(Make const& make) {
  auto const check = [&](auto const& wrap) {
    for (std::uint64_t const n : {0u, 1u, 5u, 5000u})
      check_buckets([&](std::uint64_t bucket) { return wrap(make(bucket)); }, n);
  };
  check([](auto const& c) { return c; });
  check([](auto const& c) { return pith::ring(c); });
  check([](auto const& c) { return pith::two_shot(c); });
  check([](auto const& c) { return pith::two_shot(pith::scaled_sign(24), c); });
  check([](auto const& c) { return pith::two_shot(c, pith::error_feedback(c, pith::unverified)); });
  check([](auto const& c) { return pith::hierarchical(c, pith::identity(), 2); });
  check([](auto const& c) { return pith::hierarchical(pith::identity(), pith::ring(c), 1); });
  check([](auto const& c) { return pith::error_feedback(pith::ring(c), pith::unverified); });
}

/// The places of a chain, written as *, in an exchange.
constexpr auto exchange_places = std::array{"*",
                                            "ring(*)",
                                            "two_shot(*)",
                                            "two_shot(identity,*)",
                                            "two_shot(*,ef(*,unverified))",
                                            "hierarchical(*,identity,2)",
                                            "hierarchical(*,*,1)",
                                            "hierarchical(identity,ef(*,unverified),2)",
                                            "ef(*,unverified)",
                                            "ef(ring(*),unverified)",
                                            "ef(two_shot(*),unverified)",
                                            "bypass(*,16)"};
constexpr auto tensor_sizes = std::array<std::uint64_t, 4>{0, 1, 5, 5000};

}  // namespace

TEST_CASE("every count of the registry is refused or gives finite means") {
  for (auto const& text : registered_counts()) {
    for (auto const n : tensor_sizes) check_counts(text, n);
  }
}

TEST_CASE("every count is refused or gives finite means in every exchange") {
  for (auto const* stage : {"power_sgd(#)", "one_sided_power_sgd(#)", "hadamard(#)|block_int<8>", "qsgd<8>(#)",
                            "random_blocks(0.1,#)", "sidco(0.1,exponential,#)"}) {
    for (auto const* place : exchange_places) {
      for (auto const n : tensor_sizes) check_counts(replaced(place, '*', stage), n);
    }
  }
  for (auto const* text : {"bypass(scaled_sign,#)", "bypass(ring(scaled_sign),#)", "ef(bypass(qsgd<8>,#),unverified)",
                           "hierarchical(identity,bypass(ring(qsgd<8>),#),2)", "hierarchical(identity,identity,#)"}) {
    for (auto const n : tensor_sizes) check_counts(text, n);
  }
}

TEST_CASE("a bucket larger than the tensor is the whole tensor in every exchange") {
  for (auto const* stage :
       {"scaled_sign(#)", "one_bit(#)", "terngrad(0,#)", "terngrad(2.5,#)", "qsgd<4>(7,#)", "qsgd<8>(127,#,max)",
        "eight_bit(#)", "block_int<8>(#)", "trits(terngrad(0,#))", "trits(qsgd<2>(1,#))", "damped(qsgd<4>(7,#))",
        "top_k(0.25)|qsgd<8>(127,#)", "hadamard|block_int<4>(#)"}) {
    for (auto const* place : exchange_places) {
      auto const text = replaced(place, '*', stage);
      CAPTURE(text);
      for (auto const n : tensor_sizes)
        check_buckets([&](std::uint64_t bucket) { return replaced(text, '#', std::to_string(bucket)); }, n);
    }
  }
}

TEST_CASE("a bucket larger than the tensor is the whole tensor in every exchange of typed codecs") {
  check_typed([](std::uint64_t bucket) { return pith::scaled_sign(bucket); });
  check_typed([](std::uint64_t bucket) { return pith::one_bit<>(bucket); });
  check_typed([](std::uint64_t bucket) { return pith::qsgd<8>(127, bucket); });
}

TEST_CASE("buckets of two codecs whose common multiple exceeds 64 bits make one part") {
  auto const of = [](std::uint64_t a, std::uint64_t b) {
    return outcome_of(pith::two_shot(pith::scaled_sign(a), pith::error_feedback(pith::scaled_sign(b))), 5000).mean;
  };
  CHECK(of(largest_count - 7, (std::uint64_t{1} << 63) + 8) == of(5000, 5000));
  CHECK(of(std::uint64_t{1} << 63, 24) == of(5000, 24));
  CHECK(of((std::uint64_t{1} << 32) + 8, (std::uint64_t{1} << 32) + 24) == of(5000, 5000));
}

TEST_CASE("parts of any size cover the tensor") {
  for (auto const n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{5000}, largest_count - 7, largest_count}) {
    for (auto const granule :
         {std::uint64_t{1}, std::uint64_t{8}, n / 2 + 1, n | 1, std::uint64_t{1} << 63, largest_count}) {
      CAPTURE(n);
      CAPTURE(granule);
      auto const over = pith::tensor_parts(n, 3, granule);
      CHECK(over.dims(0).n <= n);
      CHECK((n > largest_count / 3 || over.dims(0).n + over.dims(1).n + over.dims(2).n == n));
    }
  }
  CHECK_THROWS_WITH_AS(pith::tensor_parts(8, 2, 0),
                       "pith::tensor_parts: ranks and granule must be at least 1, got 2 and 0", std::invalid_argument);
  CHECK_THROWS_AS(pith::tensor_parts(8, 0, 8), std::invalid_argument);
}
