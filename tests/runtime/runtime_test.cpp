// tests/runtime/runtime_test.cpp — the compiled library gives the bytes of the headers. This program is compiled with
// other flags than the library.
#include <pith/comm/any_communicator.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/runtime.hpp>
#include <pith/runtime/run_ranks.hpp>

#include <doctest/doctest.h>

#include "frozen/check.hpp"
#include "support/allocations.hpp"
#include "support/parsed.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using bytes = std::vector<std::byte>;

bytes copied(pith::span<std::byte const> from) { return {from.begin(), from.end()}; }

/// The payloads and decoded values of three steps, and the state after them.
template <class In, class C>
std::vector<bytes> steps_of(C& compressor, std::uint64_t n) {
  auto all = std::vector<bytes>();
  auto decoded = std::vector<In>(n);
  for (unsigned step = 0; step < 3; ++step) {
    auto const x = frozen::gradient<In>(n, step, 0);
    all.push_back(copied(compressor.compress(x)));
    compressor.decompress(compressor.payload(), decoded);
    auto const* const first = reinterpret_cast<std::byte const*>(decoded.data());
    all.emplace_back(first, first + n * sizeof(In));
  }
  all.push_back(compressor.export_state());
  return all;
}

/// The means and states of each rank after three steps.
template <class In, class Exchange>
std::vector<bytes> means_of(Exchange& exchange, unsigned rank) {
  auto all = std::vector<bytes>();
  for (unsigned step = 0; step < 3; ++step) {
    auto g = frozen::gradient<In>(exchange.size(), step, rank);
    exchange.all_reduce_mean(g);
    auto const* const first = reinterpret_cast<std::byte const*>(g.data());
    all.emplace_back(first, first + g.size() * sizeof(In));
  }
  all.push_back(exchange.export_state());
  return all;
}

std::vector<pith::tensor_spec> model() {
  return {{"matrix", pith::matrix(24, 30)}, {"bias", pith::vector(7)}, {"square", pith::matrix(40, 40)}};
}

/// A runner that runs its chunks on the calling thread, from the last to the first.
struct backwards_runner {
  unsigned runs = 0;
  unsigned threads() const { return 3; }
  template <class F>
  void operator()(std::uint64_t count, F const& f) {
    ++runs;
    for (auto i = count; i-- > 0;) f(i);
  }
};

constexpr char const* exchanged_texts[] = {"identity",
                                           "ef(top_k(0.1)|qsgd<8>)",
                                           "ef(power_sgd(2))",
                                           "sign",
                                           "summed_terngrad",
                                           "ef(threshold(0.5,0.3))",
                                           "ef(two_shot(scaled_sign,ef(scaled_sign)))",
                                           "ef(ring(qsgd<8>),unverified)",
                                           "g_top_k(0.1)",
                                           "ok_top_k(0.1)",
                                           "ef(hierarchical(qsgd<8>,ef(top_k(0.1)),2))",
                                           "bypass(ef(qsgd<4>,unverified),100)"};

}  // namespace

TEST_CASE_TEMPLATE("payloads and decoded values are those of the headers", In, float, pith::bfloat16) {
  constexpr auto dims = pith::matrix(25, 40);
  frozen::for_each_row<In>("small", [&](frozen::line const& l) {
    auto const codec = pith::runtime::parse<In>(l.text);
    auto const same = pith::parse<In>(l.text);
    CHECK(codec.name() == same.name());
    CHECK(codec.payload_bytes(dims) == pith::payload_bytes<In>(same, dims));
    CHECK(codec.has_rate() == same.has_rate());
    auto from_headers = pith::compressor<In>(same, dims);
    auto const expected = steps_of<In>(from_headers, dims.n);
    for (auto const& exec : {pith::runtime::executor(), pith::runtime::executor(3)}) {
      auto compiled = pith::runtime::compressor<In>(exec, codec, dims);
      CHECK(steps_of<In>(compiled, dims.n) == expected);
    }
  });
}

TEST_CASE("a large tensor is divided among the threads") {
  constexpr auto dims = pith::vector(300'001);
  auto const text = "ef(top_k(0.01)|qsgd<8>)";
  auto from_headers = pith::compressor<float>(pith::parse<float>(text), dims);
  auto const expected = steps_of<float>(from_headers, dims.n);
  auto backwards = backwards_runner();
  for (auto const& exec : {pith::runtime::executor(4), pith::runtime::executor(backwards)}) {
    auto compiled = pith::runtime::compressor<float>(exec, pith::runtime::parse<float>(text), dims);
    CHECK(steps_of<float>(compiled, dims.n) == expected);
  }
  CHECK(backwards.runs > 0);
}

TEST_CASE("a compiled compressor restores a state that the headers saved") {
  constexpr auto dims = pith::vector(1000);
  auto const text = "ef(top_k(0.1)|qsgd<8>)";
  auto from_headers = pith::compressor<float>(pith::parse<float>(text), dims);
  auto compiled = pith::runtime::compressor<float>(pith::runtime::parse<float>(text), dims);
  steps_of<float>(from_headers, dims.n);
  compiled.import_state(from_headers.export_state());
  CHECK(steps_of<float>(compiled, dims.n) == steps_of<float>(from_headers, dims.n));
  auto damaged = from_headers.export_state();
  damaged.back() ^= std::byte{1};
  CHECK_THROWS_AS(compiled.import_state(damaged), std::invalid_argument);
}

TEST_CASE("a compiled compressor decodes a payload of a given step") {
  constexpr auto dims = pith::vector(1000);
  auto const text = "random_k(0.1)|qsgd<8>";
  auto sender = pith::compressor<float>(pith::parse<float>(text), dims, {5, 1, 2});
  auto receiver = pith::runtime::compressor<float>(pith::runtime::parse<float>(text), dims, {5, 1, 0});
  auto expected = std::vector<float>(dims.n), received = expected;
  for (unsigned step = 1; step <= 5; ++step) {
    auto const payload = sender.compress(frozen::gradient<float>(dims.n, step, 2));
    sender.decompress(payload, expected);
    if (step < 3) continue;
    receiver.decompress(payload, received, 2, sender.step());
    CHECK(received == expected);
  }
  CHECK(receiver.step() == 0);
  CHECK_THROWS_AS(receiver.decompress(sender.payload(), received, 2), std::invalid_argument);
}

TEST_CASE("a compiled exchange that refuses a state is as before") {
  auto comm = pith::self_communicator();
  auto any = pith::any_communicator(comm);
  auto const codecs = [](char const* text) { return std::vector(3, pith::runtime::parse<float>(text)); };
  auto make = [&] {
    return pith::runtime::gradient_exchange<float>(pith::runtime::executor(), any, model(), codecs("ef(top_k(0.1))"));
  };
  auto exchange = make(), twin = make();
  means_of<float>(exchange, 0);
  means_of<float>(twin, 0);
  auto const saved = exchange.export_state();
  for (std::size_t cut = 0; cut < saved.size(); cut += 97) {
    auto const part = pith::span<std::byte const>(saved).first(cut);
    CHECK_THROWS_AS(exchange.import_state(part), std::invalid_argument);
    CHECK_THROWS_AS(exchange.import_state(part, codecs("ef(scaled_sign)")), std::invalid_argument);
  }
  CHECK_THROWS_AS(exchange.import_state(saved, codecs("ef(scaled_sign)")), std::invalid_argument);
  CHECK(exchange.codecs()[0].name() == "ef(top_k(0.1))");
  CHECK(exchange.export_state() == saved);
  CHECK(means_of<float>(exchange, 0) == means_of<float>(twin, 0));
}

TEST_CASE_TEMPLATE("means and states are those of the headers", In, float, pith::bfloat16) {
  for (auto const* const text : exchanged_texts) {
    CAPTURE(text);
    constexpr unsigned ranks = 4;
    auto expected = std::vector<std::vector<bytes>>(ranks), made = expected;
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto exchange = pith::gradient_exchange<In, pith::seq_executor, pith::thread_communicator>(
          pith::seq, comm, model(), pith::parse<In>(text), {.seed = 7});
      expected[comm.rank()] = means_of<In>(exchange, comm.rank());
    });
    pith::runtime::run_ranks(ranks, [&](pith::any_communicator& comm) {
      auto exchange =
          pith::runtime::gradient_exchange<In>({}, comm, model(), pith::runtime::parse<In>(text), {.seed = 7});
      made[comm.rank()] = means_of<In>(exchange, comm.rank());
    });
    CHECK(made == expected);
  }
}

TEST_CASE("a state of the headers is restored, and a step goes on from it") {
  auto const text = "ef(top_k(0.1)|qsgd<8>)";
  auto self = pith::self_communicator();
  auto first = pith::gradient_exchange<float, pith::seq_executor, pith::self_communicator>(pith::seq, self, model(),
                                                                                           pith::parse<float>(text));
  auto const saved = means_of<float>(first, 0).back();
  auto comm = pith::any_communicator(self);
  auto compiled = pith::runtime::gradient_exchange<float>({}, comm, model(), pith::runtime::parse<float>(text));
  compiled.import_state(saved);
  CHECK(compiled.export_state() == saved);
  CHECK(compiled.fed_back(0) == first.fed_back(0));
  auto const denser = pith::runtime::parse<float>(text).at(0.2);
  CHECK_THROWS_AS(compiled.import_state(saved, {denser, denser, denser}), std::invalid_argument);
  CHECK(means_of<float>(compiled, 0) == means_of<float>(first, 0));
}

TEST_CASE("an exchange overlaps, changes rates and reports") {
  auto self = pith::self_communicator();
  auto comm = pith::any_communicator(self);
  auto const codec = pith::runtime::parse<float>("ef(top_k(0.1))");
  auto const policy = [&](pith::tensor_spec const& t) {
    return t.dims.rows > 1 ? codec : pith::runtime::parse<float>("identity");
  };
  auto exchange = pith::runtime::gradient_exchange<float>(pith::runtime::executor(2), comm, model(), policy);
  CHECK(exchange.codecs()[0].name() == codec.name());
  auto g = frozen::gradient<float>(exchange.size(), 0, 0);
  exchange.begin(g);
  exchange.ready(2);
  exchange.wait();
  auto const residual = exchange.fed_back(0);
  exchange.change({codec.at(0.5), codec, codec});
  CHECK(exchange.codecs()[0].name() == "ef(top_k(0.5))");
  CHECK_THROWS_AS(exchange.change({codec}), std::invalid_argument);
  CHECK(exchange.codecs()[0].name() == "ef(top_k(0.5))");
  CHECK(exchange.fed_back(0) == residual);
  exchange.measure_errors(g);
  CHECK(exchange.report().tensors.size() == 3);
  CHECK(exchange.report().tensors[0].error() < 1);
  CHECK(exchange.bucket_of(2) == 0);
  CHECK(exchange.tensors()[1].name == "bias");
  CHECK(exchange.buckets() >= 1);
  exchange.begin(g);
  exchange.skip();
  exchange.rescale(2);
  CHECK(exchange.fed_back(0)[5] == 2 * residual[5]);
  auto moved = std::move(exchange);
  moved.all_reduce_mean(g);
  CHECK_FALSE(moved.has_failed());
}

TEST_CASE("errors are those of the headers") {
  CHECK_THROWS_AS(pith::runtime::parse<float>("topk(0.1)"), std::invalid_argument);
  CHECK_THROWS_AS(pith::runtime::parse<float>("qsgd<8>").at(0.5), std::invalid_argument);
  auto self = pith::self_communicator();
  auto comm = pith::any_communicator(self);
  auto const codec = pith::runtime::parse<float>("qsgd<8>");
  CHECK_THROWS_WITH_AS(pith::runtime::gradient_exchange<float>({}, comm, model(), std::vector{codec}),
                       "pith::gradient_exchange: codecs must have 3 entries, got 1", std::invalid_argument);
  auto compiled = pith::runtime::compressor<float>(codec, pith::vector(8));
  pith::runtime::run_ranks(2, [&](pith::any_communicator& each) {
    auto const make = [&] {
      pith::runtime::gradient_exchange<float>({}, each, model(), std::vector(each.rank() == 0 ? 3 : 2, codec));
    };
    auto const throwing = [&](pith::tensor_spec const&) {
      return pith::runtime::parse<float>(each.rank() == 0 ? "qsgd<8>" : "topk(0.1)");
    };
    auto const make_by_policy = [&] { pith::runtime::gradient_exchange<float>({}, each, model(), throwing); };
    if (each.rank() == 0) {
      CHECK_THROWS_AS(make(), pith::agreement_error);
      CHECK_THROWS_AS(make_by_policy(), pith::agreement_error);
    } else {
      CHECK_THROWS_AS(make(), std::invalid_argument);
      CHECK_THROWS_AS(make_by_policy(), std::invalid_argument);
    }
  });
  auto const x = std::vector<float>(9);
  CHECK_THROWS_AS(compiled.compress(x), std::invalid_argument);
}

TEST_CASE("calls allocate nothing after construction") {
  auto self = pith::self_communicator();
  auto comm = pith::any_communicator(self);
  auto const codec = pith::runtime::parse<float>("ef(top_k(0.1)|qsgd<8>)");
  auto exchange = pith::runtime::gradient_exchange<float>({}, comm, model(), codec);
  auto g = frozen::gradient<float>(exchange.size(), 0, 0);
  exchange.all_reduce_mean(g);
  auto const before = support::allocations.load();
  exchange.all_reduce_mean(g);
  CHECK(support::allocations.load() == before);
}
