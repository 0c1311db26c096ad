// tests/exchange/state_format_test.cpp — saved states: golden files, other versions and formats, other executors.
#include <pith/codec/detail/state_words.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/core/buffer.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/exec/par.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/sidco.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "exchange/golden_states.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using golden::state_bytes;

state_bytes state_in(std::string const& folder, std::string const& name) {
  auto file = std::ifstream(std::string(PITH_TEST_DATA) + "/state/" + folder + "/" + name + ".state", std::ios::binary);
  auto const text = std::string(std::istreambuf_iterator<char>(file), {});
  auto const* const first = reinterpret_cast<std::byte const*>(text.data());
  return {first, first + text.size()};
}

/// The state that an equal job writes now. Wire version 1 changed random numbers and the bytes that l_greco counts.
state_bytes golden_state(std::string const& name) { return state_in(name == "gradiveq" ? "v2" : "v2_wire1", name); }

/// Puts bytes back on rank 1, by an equal exchange, which then saves them; other ranks put back their own.
template <class Make>
state_bytes put_back(unsigned ranks, unsigned steps, Make const& make, state_bytes const& bytes) {
  auto saved = state_bytes();
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto first = make(comm);
    for (unsigned step = 0; step < steps; ++step) {
      auto g = golden::gradient(first.size(), comm.rank(), step);
      first.all_reduce_mean(g);
    }
    auto const own = first.export_state();
    auto again = make(comm);
    again.import_state(comm.rank() == 1 ? bytes : own);
    auto next = again.export_state();
    if (comm.rank() == 1) saved = std::move(next);
  });
  return saved;
}

/// The same state by a library of another version.
state_bytes of_version(std::string const& version, state_bytes const& saved) {
  auto const parts = pith::detail::open_states("test", saved);
  auto const words = "pith " + version + '\n' + std::string(parts.words);
  auto head = pith::detail::saved_header{.word_bytes = words.size(), .state_bytes = parts.states.size()};
  auto other = state_bytes(sizeof head);
  auto const* const first = reinterpret_cast<std::byte const*>(words.data());
  other.insert(other.end(), first, first + words.size());
  other.insert(other.end(), parts.states.begin(), parts.states.end());
  std::memcpy(other.data(), &head, sizeof head);
  head.checksum = pith::detail::checksum_of_saved(other);
  std::memcpy(other.data(), &head, sizeof head);
  return other;
}

/// Of seq and par: equal states, which each goes on from.
template <class C>
void check_executors(C const& codec) {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto const par = pith::par();
    auto const tensors = std::vector<pith::tensor_spec>{{"weight", {96, 12}}, {"none", {0}}, {"head", {41}}};
    auto on_seq = pith::make_exchange<float>(pith::seq, comm, tensors, codec, {.seed = 5});
    auto on_par = pith::make_exchange<float>(par, comm, tensors, codec, {.seed = 5});
    auto const step = [&](auto& exchange, unsigned number) {
      auto g = golden::gradient(exchange.size(), comm.rank(), number);
      exchange.all_reduce_mean(g);
      return g;
    };
    for (unsigned number = 0; number < 3; ++number) step(on_seq, number);
    auto const saved = on_seq.export_state();
    on_par.import_state(saved);
    CHECK(on_par.export_state() == saved);
    CHECK(step(on_par, 3) == step(on_seq, 3));
    CHECK(on_par.export_state() == on_seq.export_state());
  });
}

}  // namespace

TEST_CASE("the golden state of a compressor is the one that an equal compressor saves") {
  auto again = golden::make_compressor();
  auto const kept = golden_state("compressor"), made = golden::saved_by_compressor();
  again.import_state(kept);
  CHECK(again.export_state() == made);
  CHECK_NOTHROW(again.import_state(of_version("0.9", kept)));
  auto const of_kept = pith::detail::open_states("test", kept), of_made = pith::detail::open_states("test", made);
  CHECK(of_kept.words == of_made.words);
  CHECK(std::ranges::equal(of_kept.states, of_made.states));
}

TEST_CASE("golden states equal those that equal jobs save, except for the library's version") {
  golden::for_each_kind([](std::string const& name, unsigned ranks, unsigned steps, auto const& make) {
    CAPTURE(name);
    auto const kept = golden_state(name), made = golden::saved_by(ranks, steps, make);
    REQUIRE(kept.size() > 32);
    CHECK(std::equal(made.begin(), made.begin() + 8, kept.begin()));
    auto const of_kept = pith::detail::open_states("test", kept), of_made = pith::detail::open_states("test", made);
    if (name != "adaptive_exchange") {  // whose states have a version inside
      CHECK(of_kept.words == of_made.words);
      CHECK(std::ranges::equal(of_kept.states, of_made.states));
    }
    CHECK(of_version("0.1", put_back(ranks, steps, make, kept)) == of_version("0.1", made));
  });
}

TEST_CASE("states of wire version 0 are read, and saved with the same bytes except for the library's version") {
  auto again = golden::make_compressor();
  auto const kept = state_in("v2", "compressor");
  again.import_state(kept);
  CHECK(of_version("0.1", again.export_state()) == of_version("0.1", kept));
  golden::for_each_kind([](std::string const& name, unsigned ranks, unsigned steps, auto const& make) {
    if (name == "adaptive_exchange") return;  // whose states have a version inside
    CAPTURE(name);
    auto const first = state_in("v2", name);
    CHECK(of_version("0.1", put_back(ranks, steps, make, first)) == of_version("0.1", first));
  });
}

TEST_CASE("a state of another version is accepted") {
  golden::for_each_kind([](std::string const& name, unsigned ranks, unsigned steps, auto const& make) {
    CAPTURE(name);
    auto const saved = golden::saved_by(ranks, steps, make);
    CHECK(put_back(ranks, steps, make, of_version("7.25", saved)) == saved);
  });
  auto const saved = golden::saved_by(2, 1, [](auto& comm) { return golden::make_adaptive(comm); });
  CHECK(pith::reshard({of_version("7.25", saved)}, 2) == pith::reshard({saved}, 2));
}

TEST_CASE("a state of another format is refused in one sentence") {
  auto other = golden::saved_by(2, 1, [](auto& comm) { return golden::make_adaptive(comm); });
  other[7] = std::byte{'3'};
  CHECK_THROWS_WITH_AS(pith::reshard({other}, 2), "pith::reshard: states[0]: the state must be of format 2, got 3",
                       std::invalid_argument);
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", {4}}}, pith::identity());
  CHECK_THROWS_WITH_AS(exchange.import_state(other),
                       "pith::gradient_exchange::import_state: the state must be of format 2, got 3",
                       std::invalid_argument);
  other[0] = std::byte{'x'};
  CHECK_THROWS_WITH_AS(exchange.import_state(other),
                       "pith::gradient_exchange::import_state: the state must begin with \"pistate\", got other bytes: "
                       "pass what export_state returned",
                       std::invalid_argument);
}

TEST_CASE("a state of another kind is refused by its name") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", {4}}}, pith::identity());
  CHECK_THROWS_WITH_AS(
      exchange.import_state(golden_state("gradiveq")),
      "pith::gradient_exchange::import_state: the state must be of gradient_exchange, got one of gradiveq",
      std::invalid_argument);
}

TEST_CASE("a state goes from seq to par and back, byte by byte") {
  check_executors(pith::error_feedback(pith::top_k(0.25) | pith::qsgd<4>()));
  check_executors(pith::error_feedback(pith::scaled_sign(8), pith::ef21(0.5)));
  check_executors(pith::error_feedback(pith::power_sgd(2)));
  check_executors(pith::error_feedback(pith::sidco(0.25)));
  check_executors(pith::two_shot(pith::qsgd<8>(), pith::error_feedback(pith::scaled_sign())));
}

TEST_CASE("names may have lines and signs of their own") {
  auto comm = pith::self_communicator();
  auto const saved = [&](std::string const& name) {
    return pith::make_exchange<float>(pith::seq, comm, {{name, {4}}}, pith::identity()).export_state();
  };
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"a\nfield share float 9", {4}}}, pith::identity());
  auto const own = exchange.export_state();
  exchange.import_state(own);
  CHECK(pith::reshard({own}, 1).at(0) == own);
  CHECK_THROWS_AS(exchange.import_state(saved("a\\nfield share float 9")), std::invalid_argument);
  CHECK_THROWS_AS(exchange.import_state(saved("a")), std::invalid_argument);
}

TEST_CASE("the description of a field states its kind, element type, count, places and granule") {
  struct two_fields {
    pith::buffer<float, pith::seq_executor> values = {pith::seq, 6};
    pith::buffer<std::uint16_t, pith::seq_executor> words = {pith::seq, 3};
    void fields(pith::field_visitor& f) { f(values), f(words); }
  };
  struct placed : two_fields {
    void fields(pith::field_visitor& f) { f.of_place(static_cast<two_fields&>(*this), 3); }
  };
  auto own = placed();
  auto const lines_of = [](auto const& show) {
    auto seen = pith::detail::field_describer();
    show(static_cast<pith::field_visitor&>(seen));
    return seen.lines;
  };
  CHECK(lines_of([&](auto& f) { own.two_fields::fields(f); }) ==
        "field agreed float 6 places 1 granule 0\nfield agreed byte 6 places 1 granule 0\n");
  CHECK(lines_of([&](auto& f) { f.local(own); }) ==
        "field share float 6 places 3 granule 0\nfield learned byte 6 places 3 granule 0\n");
  auto parts = pith::detail::part_state<placed>{placed(), 6, 8};
  CHECK(lines_of([&](auto& f) { f.local(parts); }) ==
        "field part float 6 places 3 granule 8\nfield learned byte 6 places 3 granule 0\n");
  parts.n = 5;  // what is no value for each element cannot be cut
  CHECK(lines_of([&](auto& f) { f.local(parts); }) ==
        "field fixed float 6 places 3 granule 0\nfield learned byte 6 places 3 granule 0\n");
  CHECK(lines_of([&](auto& f) { f(own.values, pith::field_kind::fixed), f(own.values); }) ==
        "field fixed float 6 places 1 granule 0\nfield agreed float 6 places 1 granule 0\n");
}
