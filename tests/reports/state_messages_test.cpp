// tests/reports/state_messages_test.cpp — the error for a wrong state contains the fault and the fix. Compare
// pytorch/pytorch#12042, where the error for a truncated file contains a negative size.
#include <pith/codec/compressor.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/feedback/ef_sign.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using bytes = std::vector<std::byte>;
using message_tensors = std::vector<pith::tensor_spec>;

/// The message of a call that throws, without the name of the call.
std::string refusal_message(std::function<void()> const& call) {
  try {
    call();
  } catch (std::invalid_argument const& e) {
    auto const words = std::string(e.what());
    auto const name = std::string("pith::gradient_exchange::import_state: ");
    return words.starts_with(name) ? words.substr(name.size()) : words;
  }
  return "accepted";
}

bytes saved_state_of(message_tensors const& tensors, char const* codec = "identity",
                     pith::exchange_options const& options = {}) {
  auto comm = pith::self_communicator();
  return pith::make_exchange<float>(pith::seq, comm, tensors, pith::parse<float>(codec), options).export_state();
}
/// The refusal of a state by an exchange of two tensors, "a" and "b".
std::string refusal_of_two(bytes const& state) {
  auto comm = pith::self_communicator();
  auto e = pith::make_exchange<float>(pith::seq, comm, {{"a", {4}}, {"b", {8}}}, pith::parse<float>("identity"));
  return refusal_message([&] { e.import_state(state); });
}
bytes cut_to(bytes state, std::size_t size) {
  state.resize(size);
  return state;
}
std::string sizes_in_words(std::size_t expected, std::size_t got) {
  return "it must have " + std::to_string(expected) + " bytes, got " + std::to_string(got);
}

}  // namespace

TEST_CASE("the error for a state with missing or trailing bytes contains its size") {
  auto const whole = saved_state_of({{"a", {4}}, {"b", {8}}});
  auto const size = whole.size();
  for (std::size_t const got : {std::size_t{0}, std::size_t{1}, std::size_t{31}})
    CHECK(refusal_of_two(cut_to(whole, got)) ==
          "the state is cut off: it must have at least 32 bytes, got " + std::to_string(got));
  for (std::size_t const got : {std::size_t{32}, std::size_t{40}, size / 2, size - 1})
    CHECK(refusal_of_two(cut_to(whole, got)) == "the state is cut off: " + sizes_in_words(size, got));
  for (std::size_t const got : {size + 1, size + 8, 2 * size})
    CHECK(refusal_of_two(cut_to(whole, got)) == "the state has trailing bytes: " + sizes_in_words(size, got));
  CHECK(refusal_of_two(whole) == "accepted");
  CHECK(refusal_message([&] { pith::reshard({cut_to(whole, size - 1)}, 2); }) ==
        "pith::reshard: states[0]: the state is cut off: " + sizes_in_words(size, size - 1));
}

TEST_CASE("the error for a state of other tensors contains the first tensor that differs") {
  CHECK(refusal_of_two(saved_state_of({{"a", {4}}, {"c", {8}}})) ==
        "the state must be of tensor \"b\" of 8 elements in 1 rows, codec identity, got one of tensor \"c\" of 8 "
        "elements in 1 rows, codec identity");
  CHECK(refusal_of_two(saved_state_of({{"b", {8}}})) ==
        "the state must be of tensor \"a\" of 4 elements in 1 rows, codec identity, got one of tensor \"b\" of 8 "
        "elements in 1 rows, codec identity");
  CHECK(refusal_of_two(saved_state_of({{"a", {4}}})) ==
        "the state must also be of tensor \"b\" of 8 elements in 1 rows, codec identity, got one that ends before this "
        "line");
  CHECK(refusal_of_two(saved_state_of({{"a", {4}}, {"b", {8}}, {"c", {1}}})) ==
        "the state must be of nothing else, got one that is also of tensor \"c\" of 1 elements in 1 rows, codec "
        "identity");
}

TEST_CASE("the error for long lines contains the letters that differ") {
  auto comm = pith::self_communicator();
  auto const name = std::string(500, 'x');
  auto e = pith::make_exchange<float>(pith::seq, comm, {{name + "1", {4}}}, pith::parse<float>("identity"));
  auto const words = refusal_message([&] { e.import_state(saved_state_of({{name + "2", {4}}})); });
  CHECK(words.find("xxx1\" of 4 elements") != std::string::npos);
  CHECK(words.find("xxx2\" of 4 elements") != std::string::npos);
  CHECK(words.size() < 500);
}

TEST_CASE("the error for a state of another rank advises to import the own state") {
  auto const own = std::string(": each rank saves its own state and imports its own state");
  auto states = std::vector<bytes>(2);
  auto words = std::vector<std::string>(2);
  auto const make = [](pith::thread_communicator& comm) {
    return pith::make_exchange<float>(pith::seq, comm, {{"a", {4}}, {"b", {8}}}, pith::parse<float>("identity"));
  };
  pith::run_ranks(2, [&](pith::thread_communicator comm) { states[comm.rank()] = make(comm).export_state(); });
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto e = make(comm);
    words[comm.rank()] = refusal_message([&] { e.import_state(states[1 - comm.rank()]); });
  });
  CHECK(words[0] == "the state must be of rank 0 of 2, got one of rank 1 of 2" + own);
  CHECK(words[1] == "the state must be of rank 1 of 2, got one of rank 0 of 2" + own);
  CHECK(refusal_of_two(states[0]) ==
        "the state must be of rank 0 of 1, got one of rank 0 of 2: reshard() converts states for another number of "
        "ranks");
  CHECK(refusal_of_two(states[1]) ==
        "the state must be of rank 0 of 1, got one of rank 1 of 2: reshard() converts states for another number of "
        "ranks");
  auto const of_rank = [](std::uint16_t rank) {
    return pith::compressor<float>(pith::parse<float>("identity"), {4}, {1, 2, rank});
  };
  auto compressor = of_rank(0);
  CHECK(refusal_message([&] { compressor.import_state(of_rank(3).export_state()); }) ==
        "pith::compressor::import_state: the state must be of rank 0, got one of rank 3" + own);
}

TEST_CASE("the error for states that do not fit together contains the states to pass") {
  auto states = std::vector<bytes>(2), later = states;
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto e = pith::make_exchange<float>(pith::seq, comm, {{"a", {4}}}, pith::parse<float>("identity"));
    states[comm.rank()] = e.export_state();
    auto g = std::vector<float>(4);
    e.all_reduce_mean(g);
    later[comm.rank()] = e.export_state();
  });
  auto const refused = [](std::vector<bytes> const& of) { return refusal_message([&] { pith::reshard(of, 2); }); };
  CHECK(refused({states[0], states[0]}) ==
        "pith::reshard: states[1]: the rank must be above 0, that of the state before, got 0: pass the state of each "
        "rank once, in rank order");
  CHECK(refused({states[1], states[0]}) ==
        "pith::reshard: states[1]: the rank must be above 1, that of the state before, got 0: pass the state of each "
        "rank once, in rank order");
  CHECK(
      refused({states[0], later[1]}) ==
      "pith::reshard: states[1]: the replicated state must be equal on all ranks, got another than states[0] of tensor "
      "\"a\" of 4 elements in 1 rows, codec identity: pass states that were saved after the same step");
}

TEST_CASE("the error for a learning rate of 0 advises to skip the exchange") {
  auto const refused = [](double rate) { return refusal_message([&] { pith::ef_sign policy(rate); }); };
  auto const range = std::string("pith::ef_sign: learning_rate must be in [1e-30, 1e30], got ");
  CHECK(refused(0) == range + "0: skip the exchange in steps with learning rate 0, which change no parameter");
  CHECK(refused(-1) == range + "-1");
  CHECK(refused(1e31) == range + "1e+31");
}

TEST_CASE("errors advise reshard only for states that it can convert") {
  auto const refused = [](char const* kind) {
    auto const words = [&](char const* ranks) { return std::string(kind) + "\nrank 0 of " + ranks + "\n"; };
    return refusal_message([&] { pith::detail::require_words("import", words("2"), words("3")); });
  };
  CHECK(refused("gradiveq") == "pith::import: the state must be of rank 0 of 2, got one of rank 0 of 3");
  CHECK(refused("gradient_exchange") ==
        "pith::import: the state must be of rank 0 of 2, got one of rank 0 of 3: reshard() converts states for another "
        "number of ranks");
}
