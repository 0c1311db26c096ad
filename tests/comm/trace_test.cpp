// tests/comm/trace_test.cpp — what an exchange notes of its time, and that work is done under transfers.
#include <pith/adaptor/identity.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/comm/trace.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/scaled_sign.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "support/late.hpp"

using pith::exchange_trace;
using work = exchange_trace::work;
using any = pith::any_codec<float, pith::seq_executor>;

namespace {

std::vector<pith::tensor_spec> const two = {{"first", {64, 8}}, {"second", {64, 8}}};

/// The sum of all ranks, a quarter of a tensor per round.
template <unsigned Depth>
struct quarters : pith::identity {
  using facets = pith::ext::extended<pith::identity::facets, pith::ext::rounds>;

  unsigned depth() const { return Depth; }

  std::string name() const { return "quarters"; }
  unsigned rounds(pith::shape const&, unsigned) const { return 4; }
  template <class In>
  pith::transfer round(unsigned, pith::shape const& dims, unsigned) const {
    return {pith::transport::all_gather, pith::element_kind::bytes, dims.n / 4 * sizeof(In)};
  }
  template <class In, pith::executor E>
  std::size_t exchange_scratch_bytes(E const&, pith::shape const&, unsigned) const {
    return 0;
  }
  template <pith::real In, pith::executor E>
  void produce(pith::context<In, E> const& cx, unsigned round, pith::values_on<E, In const> x,
               pith::span_on<E, std::byte> out, pith::no_state const&, pith::no_state&) const {
    cx.exec.copy(out.data(), x.data + round * out.size() / sizeof(In), out.size());
  }
  template <pith::real In, pith::executor E>
  void absorb(pith::context<In, E> const& cx, unsigned round, pith::received_on<E> in, pith::values_on<E, In> x,
              pith::no_state&, pith::no_state&) const {
    auto const n = cx.dims.n / 4;
    cx.exec.fill(x.data + round * n, std::byte{}, n * sizeof(In));
    for (unsigned r = 0; r < cx.ranks; ++r) {
      auto const* const from = reinterpret_cast<In const*>(in.from(r, n * sizeof(In)).data());
      cx.exec.for_each_index(n, pith::detail::add<In, In>{from, x.data + round * n});
    }
  }
};

/// A step of two buckets over transfers that take as long as there is something else to do.
template <class Step>
exchange_trace traced(any const& codec, Step const& step) {
  auto trace = exchange_trace();
  auto comm = support::late_communicator(pith::self_communicator(), 1'000'000);
  auto exchange = pith::make_exchange<float>(pith::seq, comm, two, codec, {.bucket_bytes = 0, .trace = &trace});
  auto g = std::vector<float>(exchange.size(), 1.0f);
  step(exchange, g);
  return trace;
}
void at_once(auto& exchange, std::vector<float>& g) { exchange.all_reduce_mean(g); }
void one_by_one(auto& exchange, std::vector<float>& g) {
  exchange.begin(g);
  exchange.ready(1);
  exchange.ready(0);
  exchange.wait();
}

exchange_trace::entry find(exchange_trace const& trace, work what, std::size_t bucket, unsigned round = 0) {
  auto const& all = trace.entries();
  auto const it = std::find_if(all.begin(), all.end(),
                               [&](auto const& e) { return e.what == what && e.bucket == bucket && e.round == round; });
  REQUIRE(it != all.end());
  return *it;
}
bool lies_within(exchange_trace::entry const& inner, exchange_trace::entry const& outer) {
  return outer.begin <= inner.begin && inner.begin <= inner.end && inner.end <= outer.end;
}

}  // namespace

TEST_CASE("a bucket is encoded, and the one before it decoded, while another one travels") {
  auto const codec = any(pith::error_feedback(pith::scaled_sign()));
  for (auto const &trace : {traced(codec, [](auto&e, auto&g) { at_once(e, g); }),
                            traced(codec, [](auto&e, auto&g) { one_by_one(e, g); })}) {
    CHECK(trace.entries().size() == 6);
    CHECK(lies_within(find(trace, work::encode, 1), find(trace, work::transfer, 0)));
    CHECK(lies_within(find(trace, work::decode, 0), find(trace, work::transfer, 1)));
    CHECK(find(trace, work::encode, 0).end <= find(trace, work::transfer, 0).begin);
    CHECK(find(trace, work::transfer, 1).end <= find(trace, work::decode, 1).begin);
  }
}

TEST_CASE("rounds that build on one another take turns, and the last one lets the next bucket begin") {
  auto const codec = any(pith::error_feedback(pith::power_sgd(1)));
  auto const trace = traced(codec, [](auto& e, auto& g) { at_once(e, g); });
  CHECK(trace.entries().size() == 12);
  CHECK(find(trace, work::decode, 0, 0).end <= find(trace, work::encode, 0, 1).begin);
  CHECK(lies_within(find(trace, work::encode, 1, 0), find(trace, work::transfer, 0, 1)));
  CHECK(lies_within(find(trace, work::decode, 0, 1), find(trace, work::transfer, 1, 0)));
}

TEST_CASE("rounds that do not build on the one before them overlap it") {
  auto const alone = traced(any(quarters<1>()), [](auto& e, auto& g) { at_once(e, g); });
  auto const deep = traced(any(quarters<2>()), [](auto& e, auto& g) { at_once(e, g); });
  for (unsigned round = 0; round + 1 < 4; ++round) {
    CHECK_FALSE(lies_within(find(alone, work::encode, 1, round + 1), find(alone, work::transfer, 1, round)));
    CHECK(lies_within(find(deep, work::encode, 1, round + 1), find(deep, work::transfer, 1, round)));
    CHECK(lies_within(find(deep, work::decode, 1, round), find(deep, work::transfer, 1, round + 1)));
  }
}

TEST_CASE("one tensor of deep rounds has memory for two") {
  pith::run_ranks(3, [](pith::thread_communicator threads) {
    auto comm = support::late_communicator(threads, 1'000'000);
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {two[0]}, any(quarters<2>()));
    auto g = std::vector<float>(64);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(i + comm.rank());
    exchange.all_reduce_mean(g);
    for (std::size_t i = 0; i < g.size(); ++i) REQUIRE(g[i] == static_cast<float>(3 * i + 3));
  });
}

TEST_CASE("a trace is written as Chrome reads it") {
  auto trace = exchange_trace(2);
  auto const at = [&](int ns) { return trace.began() + std::chrono::nanoseconds(ns); };
  trace.note({work::encode, 0, 0, at(1005), at(1'234'567)});
  trace.note({work::transfer, 12, 1, at(5'000'000), at(5'000'090)});
  trace.note({work::decode, 12, 1, at(0), at(0)});  // there is no room for it
  CHECK(trace.dropped() == 1);
  CHECK(trace.json(3) ==
        "{\"traceEvents\":[\n"
        R"({"name":"thread_name","ph":"M","pid":3,"tid":0,"args":{"name":"codecs"}},)"
        "\n"
        R"({"name":"thread_name","ph":"M","pid":3,"tid":1,"args":{"name":"transfers"}},)"
        "\n"
        R"({"name":"encode","ph":"X","pid":3,"tid":0,"ts":1.005,"dur":1233.562,"args":{"bucket":0,"round":0}},)"
        "\n"
        R"({"name":"transfer","ph":"X","pid":3,"tid":1,"ts":5000.000,"dur":0.090,"args":{"bucket":12,"round":1}})"
        "\n]}\n");
  trace.clear();
  CHECK(trace.entries().empty());
  CHECK(trace.dropped() == 0);
  trace.note({work::encode, 0, 0, at(0), at(1)});
  CHECK(trace.entries().size() == 1);
}
