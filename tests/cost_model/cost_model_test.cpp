// tests/cost_model/cost_model_test.cpp — formulae by hand, fits of their values, and the resulting plans.
#include <pith/adaptor/identity.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/cost_model/cost_model.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>
#include <range/v3/algorithm/min.hpp>
#include <range/v3/view/iota.hpp>
#include <range/v3/view/transform.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace {

using doctest::Approx;  // relative 1.2e-5: sums of a few doubles are closer by far

/// 1 ms per message, 10^8 bytes per second.
pith::network const four{4, {1e-3, 1e-8}};

template <class C>
pith::exchange_work work_of(C const& codec, std::vector<pith::tensor_spec> const& tensors, unsigned ranks = 4) {
  auto const all = [&](pith::tensor_spec const&) { return pith::any_codec<float, pith::seq_executor>(codec); };
  return pith::work_of<float>(pith::seq, tensors, all, ranks);
}
std::vector<pith::tensor_spec> vector_of(std::uint64_t n) { return {{"x", {n}}}; }

pith::exchange_candidate dense(std::uint64_t n, unsigned ranks = 4) {
  return {"identity", work_of(pith::identity(), vector_of(n), ranks)};
}
pith::exchange_candidate quantized(std::uint64_t n, pith::codec_cost cost, unsigned ranks = 4) {
  return {"qsgd", work_of(pith::qsgd<8>(), vector_of(n), ranks), cost};
}

}  // namespace

TEST_CASE("a line goes through two measurements") {
  auto const line = pith::fit_cost({10, 7}, {30, 17});
  CHECK(line.each == Approx(0.5));
  CHECK(line.fixed == Approx(2));
  CHECK(line(100) == Approx(52));
}

TEST_CASE("noise makes no cost negative: the line then goes through the larger measurement") {
  auto const falling = pith::fit_cost({10, 7}, {30, 5});
  CHECK(falling.each == 0);
  CHECK(falling(1000) == 5);
  auto const steep = pith::fit_cost({10, 1}, {30, 9});
  CHECK(steep.fixed == 0);
  CHECK(steep(30) == Approx(9));
}

TEST_CASE("sizes that do not grow are no line") {
  CHECK_THROWS_WITH_AS(pith::fit_cost({10, 1}, {10, 2}),
                       "pith::fit_cost: small.n must be at least 0 and below large.n, got 10 and 10",
                       std::invalid_argument);
  CHECK_THROWS_AS(pith::fit_cost({std::numeric_limits<double>::quiet_NaN(), 1}, {10, 2}), std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::fit_network(1, {1, 1}, {2, 2}), "pith::fit_network: ranks must be at least 2, got 1",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::fit_network(2, {2, 1}, {1, 2}),
                       "pith::fit_network: small.n must be at least 0 and below large.n, got 2 and 1",
                       std::invalid_argument);
}

TEST_CASE("a sum of n floats is 2 (P - 1) messages of a P-th of them") {
  auto const c = dense(1'000'000);
  CHECK(pith::wire_seconds(four, c) == Approx(6 * (1e-3 + 1e6 * 1e-8)));
  CHECK(c.work.encoded == Approx(1e6));
  CHECK(c.work.decoded == Approx(1e6));
}

TEST_CASE("an all-gather is P - 1 payloads, and decodes P of them") {
  auto const n = 1u << 20;
  auto const c = quantized(n, {});
  auto const payload = static_cast<double>(pith::payload_bytes<float>(pith::qsgd<8>(), pith::shape{n}));
  CHECK(pith::wire_seconds(four, c) == Approx(3 * (1e-3 + payload * 1e-8)));
  CHECK(c.work.encoded == Approx(n));
  CHECK(c.work.decoded == Approx(4.0 * n));
}

TEST_CASE("two_shot is 2 (P - 1) P-ths of a payload, encodes n + n / P and decodes 2 n") {
  auto const n = 1u << 20;
  auto const c = pith::exchange_candidate{"two_shot", work_of(pith::two_shot(pith::qsgd<8>()), vector_of(n))};
  auto const payload = static_cast<double>(pith::payload_bytes<float>(pith::qsgd<8>(), pith::shape{n}));
  CHECK(pith::wire_seconds(four, c) == Approx(6 * (1e-3 + payload / 4 * 1e-8)));
  CHECK(c.work.encoded == Approx(1.25 * n));
  CHECK(c.work.decoded == Approx(2.0 * n));
}

TEST_CASE("a codec with rounds of its own sends each round's sum") {
  auto const codec = pith::error_feedback(pith::power_sgd(2));
  auto const c = pith::exchange_candidate{"low rank", work_of(codec, {{"matrix", {300 * 200, 300}}})};
  CHECK(c.work.sent.size() == 2);
  CHECK(pith::wire_seconds(four, c) == Approx(12 * 1e-3 + 6 * (300 + 200) * 2 * 4 / 4 * 1e-8));
}

TEST_CASE("a ring is 4 (P - 1) messages to a neighbour, of half a P-th of a payload each") {
  auto const n = 1u << 20;
  auto const c = pith::exchange_candidate{"ring", work_of(pith::ring(pith::qsgd<8>()), vector_of(n))};
  auto const payload = static_cast<double>(pith::payload_bytes<float>(pith::qsgd<8>(), pith::shape{n}));
  CHECK(c.work.sent.size() == 12);
  CHECK(pith::wire_seconds(four, c) == Approx(12 * (1e-3 + payload / 8 * 1e-8)));
}

TEST_CASE("wire_seconds charges hierarchical for inner payloads within nodes and for one part between nodes") {
  auto const n = 1u << 20;
  auto const codec = pith::hierarchical(pith::qsgd<8>(), pith::identity(), 4);
  auto const c = pith::exchange_candidate{"levels", work_of(codec, vector_of(n), 8)};
  auto const part = static_cast<double>(pith::payload_bytes<float>(pith::qsgd<8>(), pith::shape{n / 4}));
  auto const slow = 1e-3 + 4.0 * n / 4 / 2 * 1e-8, inside = 1e-5 + part * 1e-10;
  auto const net = pith::network{8, {1e-3, 1e-8}, 4, {1e-5, 1e-10}};
  CHECK(pith::wire_seconds(net, c) == Approx(2 * slow + 2 * 3 * inside));
  CHECK(pith::wire_seconds(pith::faster(net, 1e-3), c) - pith::wire_seconds(net, c) ==
        Approx(999 * 4.0 * n / 4 * 1e-8));
  CHECK(pith::wire_seconds({8, {1e-3, 1e-8}}, c) == Approx(2 * slow + 2 * 3 * (1e-3 + part * 1e-8)));
  auto const two_nodes = pith::network{8, {1e-3, 1e-8}, 2, {1e-5, 1e-10}};
  CHECK(two_nodes.message_among({4, 1}).fixed == 1e-3);
  CHECK(two_nodes.message_among({2, 1}).fixed == 1e-5);
  CHECK(two_nodes.message_among({2, 4}).fixed == 1e-3);
  CHECK(two_nodes.message_among({}).fixed == 1e-3);
}

TEST_CASE("g_top_k sends all it has to a partner, log2(P) times") {
  auto const codec = pith::error_feedback(pith::g_top_k(0.01));
  auto const c = pith::exchange_candidate{"g_top_k", work_of(codec, vector_of(100'000))};
  REQUIRE(c.work.sent.size() == 2);
  CHECK(c.work.sent[0].count == 1);
  CHECK(c.work.sent[0].bytes >= 1000 * 8);
  CHECK(c.work.sent[1].bytes == c.work.sent[0].bytes);
}

TEST_CASE("tensors that travel together share the messages, not the calls of the codec") {
  auto const together = pith::exchange_candidate{"two", work_of(pith::identity(), {{"a", {600}}, {"b", {400}}})};
  auto const alone = dense(1000);
  CHECK(pith::wire_seconds(four, together) == Approx(pith::wire_seconds(four, alone)));
  CHECK(together.work.tensors == 2);
}

TEST_CASE("one rank and no elements cost no wire") {
  CHECK(pith::wire_seconds({1, {1, 1}}, dense(1000, 1)) == 0);
  auto const empty = dense(0);
  CHECK(empty.work.encoded == 0);
  CHECK(std::isfinite(pith::step_seconds(four, empty)));
  CHECK(pith::codec_seconds({"none", work_of(pith::identity(), {}), {{1, 1}, {1, 1}}}) == 0);
}

TEST_CASE("codec_seconds adds the costs of the calls, of the encoded and of the decoded elements") {
  auto const c = quantized(1000, {{1, 1e-3}, {2, 1e-4}});
  CHECK(pith::codec_seconds(c) == Approx(1 + 2 + 1000 * 1e-3 + 4000 * 1e-4));
}

TEST_CASE("segments take the pace of the slower of codec and wire, and fill the pipeline once") {
  auto const c = quantized(4'000'000, {{0, 20e-9}, {0, 5e-9}});
  auto const codec = pith::codec_seconds(c);
  CHECK(codec == Approx(0.16));
  for (auto const segments : {1u, 2u, 8u}) {
    auto const wire = pith::wire_seconds(four, c, segments);
    CHECK(pith::step_seconds(four, c, segments) ==
          Approx(codec / segments + wire + (segments - 1) * std::max(codec / segments, wire)));
  }
  CHECK(pith::step_seconds(four, c, 8) < pith::step_seconds(four, c, 1));
}

TEST_CASE("the tensors of a bucket are shared out to segments; one tensor is called once a segment") {
  auto const cost = pith::codec_cost{{1, 0}, {0, 0}};
  auto const one = pith::exchange_candidate{"one", work_of(pith::identity(), vector_of(800)), cost};
  auto const many = pith::exchange_candidate{
      "many", work_of(pith::identity(), std::vector<pith::tensor_spec>(8, {"x", {100}})), cost};
  CHECK(pith::codec_seconds(one, 4) == Approx(1));
  CHECK(pith::codec_seconds(many, 4) == Approx(2));
}

TEST_CASE("fits of two sizes recover the network and the codec, and predict other sizes and rates") {
  auto const truth = pith::codec_cost{{3e-5, 2e-9}, {5e-6, 7e-10}};
  auto const sum = [&](std::uint64_t n) {
    return pith::measured_cost{4.0 * static_cast<double>(n), pith::wire_seconds(four, dense(n))};
  };
  auto const steps = [&](std::uint64_t n) {
    auto const work = quantized(n, {}).work;
    return pith::measured_codec{work, truth.encode(work.encoded), truth.decode(work.decoded)};
  };
  auto const net = pith::fit_network(4, sum(10'000), sum(1'000'000));
  auto const cost = pith::fit_codec(steps(10'000), steps(1'000'000));
  CHECK(net.message.fixed == Approx(four.message.fixed));
  CHECK(net.message.each == Approx(four.message.each));
  for (auto const n : {1'000u, 333'333u, 50'000'000u}) {
    auto const actual = pith::step_seconds(pith::faster(four, 10), quantized(n, truth));
    CHECK(pith::step_seconds(pith::faster(net, 10), quantized(n, cost)) == Approx(actual));
  }
}

TEST_CASE("plan_exchange compresses only below the link rate at which the saved wire time equals the codec time") {
  auto const n = 1u << 22;
  auto const q = quantized(n, {{0, 1e-9}, {0, 1e-9}});
  auto const candidates = std::vector{dense(n), q};
  auto const even = (6 * 4.0 * n / 4 - 3 * q.work.sent[0].bytes) / pith::codec_seconds(q);  // bytes a second
  auto const at = [&](double rate) { return pith::network{4, {0, 1 / rate}}; };
  CHECK(pith::plan_exchange(at(even * 0.99), candidates).candidate == 1);
  CHECK(pith::plan_exchange(at(even * 1.01), candidates).candidate == 0);
}

TEST_CASE("a plan overlaps as much as messages are worth") {
  auto const c = std::vector{quantized(4'000'000, {{0, 20e-9}, {0, 5e-9}})};
  auto const choice = pith::plan_exchange(four, c, 1024);
  CHECK(choice.seconds == pith::step_seconds(four, c[0], choice.segments));
  auto const seconds = [&](unsigned log2) { return pith::step_seconds(four, c[0], 1u << log2); };
  CHECK(choice.seconds == ranges::min(ranges::views::closed_iota(0u, 10u) | ranges::views::transform(seconds)));
  CHECK(choice.segments > 1);
  CHECK(choice.segments < 1024);
  CHECK(pith::plan_exchange(four, c).segments == 1);
}

TEST_CASE("the first of equally fast candidates is taken") {
  CHECK(pith::plan_exchange(four, {dense(100), dense(100)}, 8).candidate == 0);
  CHECK_THROWS_AS(pith::plan_exchange(four, {}), std::invalid_argument);
  CHECK_THROWS_AS(pith::plan_exchange(four, {dense(1)}, 0), std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::plan_exchange({2, {0, -1e-9}}, {dense(1)}),
                       "pith::plan_exchange: a message must be finite and at least 0, got -1e-09",
                       std::invalid_argument);
  CHECK_THROWS_AS(pith::plan_exchange(four, {quantized(1, {{0, 1e-9}, {-1, 1e-9}})}), std::invalid_argument);
}
