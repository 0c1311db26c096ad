// tests/reports/receiver_step_test.cpp — a receiver without steps of its own decodes payloads of another rank, and
// passes the sender's step to decompress. Compare zama-ai/concrete-core#24, where both sides need the same random
// numbers to decompress.
#include <pith/codec/compressor.hpp>
#include <pith/exec/par.hpp>
#include <pith/pith.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/registered_texts.hpp"
#include "support/vectors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

using namespace support;

namespace {

constexpr auto sent_dims = pith::matrix(24, 30);
constexpr std::uint16_t sender_rank = 2;
constexpr std::uint64_t sent_steps = 5, joined_at = 3;

constexpr pith::tensor_id id_of_rank(std::uint16_t rank) { return {0x5eed, 7, rank}; }
std::vector<float> sent_gradient(std::uint64_t step) {
  return narrow<float>(normal_vector(sent_dims.n, static_cast<unsigned>(step)));
}

/// The sender's payloads, beginning with that of step 1.
template <class Compressor>
std::vector<std::vector<std::byte>> sent_by(Compressor sender) {
  auto all = std::vector<std::vector<std::byte>>();
  for (std::uint64_t step = 1; step <= sent_steps; ++step) {
    auto const payload = sender.compress(sent_gradient(step));
    all.emplace_back(payload.begin(), payload.end());
    CHECK(sender.step() == step);
  }
  return all;
}

/// Decodes with a receiver that also compresses once per step, so that its step is the sender's step.
template <class Compressor>
std::vector<std::vector<float>> received_in_step(Compressor peer, std::vector<std::vector<std::byte>> const& sent) {
  auto all = std::vector<std::vector<float>>();
  for (auto const& payload : sent) {
    peer.compress(sent_gradient(9));
    peer.decompress(payload, all.emplace_back(sent_dims.n), sender_rank);
  }
  return all;
}
/// Decodes the payloads from step `first` on with a receiver that compresses nothing.
template <class Compressor>
std::vector<std::vector<float>> received_from(std::uint64_t first, Compressor receiver,
                                              std::vector<std::vector<std::byte>> const& sent) {
  auto all = std::vector<std::vector<float>>();
  for (auto step = first; step <= sent.size(); ++step)
    receiver.decompress(sent[step - 1], all.emplace_back(sent_dims.n), sender_rank, step);
  return all;
}

bool is_end_of(std::vector<std::vector<float>> const& part, std::vector<std::vector<float>> const& whole) {
  return std::equal(part.rbegin(), part.rend(), whole.rbegin(), same_bytes<float>);
}

}  // namespace

TEST_CASE("a receiver that joins later decodes the payloads of each codec") {
  auto const check = [](std::string const& text) {
    CAPTURE(text);
    auto const codec = pith::parse<float>(text);
    auto const make = [&](std::uint16_t rank) { return pith::compressor<float>(codec, sent_dims, id_of_rank(rank)); };
    auto const sent = sent_by(make(sender_rank));
    auto const expected = received_in_step(make(1), sent);
    CHECK(is_end_of(received_from(1, make(0), sent), expected));
    CHECK(is_end_of(received_from(joined_at, make(3), sent), expected));
    CHECK(is_end_of(received_from(joined_at, make(sender_rank), sent), expected));
  };
  for_each_example(pith::stage_listings, check);
  for_each_example(pith::exchange_listings, check);
  for_each_example(pith::policy_listings, check);
}

TEST_CASE("a receiver with other steps or with an imported state decodes a payload of a given step") {
  auto const codec = pith::random_k(0.1) | pith::qsgd<8>();
  auto const make = [&](std::uint16_t rank) { return pith::compressor<float>(codec, sent_dims, id_of_rank(rank)); };
  auto const sent = sent_by(make(sender_rank));
  auto const expected = received_in_step(make(1), sent);
  auto ahead = make(1), resumed = make(1);
  for (std::uint64_t step = 0; step < 8; ++step) ahead.compress(sent_gradient(step));
  resumed.import_state(ahead.export_state());
  CHECK(resumed.step() == 8);
  auto const saved = ahead.export_state();
  auto x = std::vector<float>(sent_dims.n);
  ahead.decompress(sent[3], x, sender_rank, 4);
  CHECK(x == expected[3]);
  resumed.decompress(sent[3], x, sender_rank, 4);
  CHECK(x == expected[3]);
  CHECK(ahead.export_state() == saved);
  resumed.decompress(sent[3], x, sender_rank, 5);
  CHECK(x != expected[3]);
}

TEST_CASE("a receiver on several threads decodes the same values") {
  auto const codec = pith::hadamard() | pith::random_blocks(0.25, 64);
  auto const sent = sent_by(pith::make_compressor<float>(pith::seq, codec, sent_dims, id_of_rank(sender_rank)));
  auto pool = pith::thread_pool(3);
  auto const par = pith::par_executor(pool);
  CHECK(is_end_of(received_from(joined_at, pith::make_compressor<float>(par, codec, sent_dims, id_of_rank(1)), sent),
                  received_in_step(pith::make_compressor<float>(pith::seq, codec, sent_dims, id_of_rank(1)), sent)));
}

TEST_CASE("a receiver without a step of its own refuses a payload of an unknown step") {
  auto const codec = pith::random_k(0.1);
  auto const sent = sent_by(pith::compressor<float>(codec, sent_dims, id_of_rank(sender_rank)));
  auto receiver = pith::compressor<float>(codec, sent_dims, id_of_rank(1));
  auto x = std::vector<float>(sent_dims.n, 7), untouched = x;
  auto const saved = receiver.export_state();
  CHECK_THROWS_WITH_AS(receiver.decompress(sent[0], x, sender_rank),
                       "pith::compressor::decompress: the step of the payload is unknown, since this compressor has "
                       "compressed nothing: call decompress(payload, x, from, step) with the sender's step()",
                       std::invalid_argument);
  CHECK_THROWS_AS(receiver.decompress(sent[0], x), std::invalid_argument);
  CHECK_THROWS_WITH_AS(receiver.decompress(sent[0], x, sender_rank, 0),
                       "pith::compressor::decompress: step must be at least 1, got 0: pass the sender's step()",
                       std::invalid_argument);
  CHECK(x == untouched);
  CHECK(receiver.export_state() == saved);
  receiver.decompress(sent[0], x, sender_rank, 1);
  CHECK(x != untouched);
}
