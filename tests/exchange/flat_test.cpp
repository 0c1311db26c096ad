// tests/exchange/flat_test.cpp — tensors with one flat codec give what one tensor of their elements gives.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/flat.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/accordion.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/sharded_exchange.hpp>

#include <doctest/doctest.h>

#include "support/parsed.hpp"
#include "support/vectors.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace {

std::vector<pith::tensor_spec> const model = {
    {"weight", {40 * 24, 40}}, {"bias", {40}}, {"none", {0}}, {"head", {24 * 7, 24}}};
std::vector<pith::tensor_spec> const one_vector = {{"all", {1168}}};

template <class In>
std::vector<In> gradient(std::size_t n, unsigned rank, int step) {
  auto g = std::vector<In>(n);
  for (std::size_t i = 0; i < n; ++i)
    g[i] = static_cast<In>(static_cast<float>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 331) - 165);
  return g;
}

/// The span of tensor i in an array that contains all tensors one after another.
template <class In>
pith::span<In> part(std::vector<In>& all, std::size_t i) {
  std::size_t first = 0;
  for (std::size_t before = 0; before < i; ++before) first += model[before].dims.n;
  return pith::span<In>(all).subspan(first, model[i].dims.n);
}

/// A step in which the gradients are ready in the order `order`, and lie at distant addresses.
template <class Exchange, class In>
void scattered_step(Exchange& exchange, std::vector<In>& all, std::vector<std::size_t> const& order) {
  auto apart = std::vector<std::vector<In>>();
  for (std::size_t i = 0; i < model.size(); ++i) {
    apart.emplace_back(part(all, i).begin(), part(all, i).end());
    apart.back().resize(model[i].dims.n + 3);
  }
  exchange.begin();
  for (auto const i : order) exchange.ready(i, {apart[i].data(), model[i].dims.n});
  exchange.wait();
  for (std::size_t i = 0; i < model.size(); ++i) std::copy_n(apart[i].begin(), model[i].dims.n, part(all, i).begin());
}

/// An exchange of the model in which all tensors have the same flat codec.
template <class In, class Comm, class C>
auto joined(Comm& comm, C const& codec, pith::exchange_options const& options = {}) {
  return pith::make_exchange<In>(pith::seq, comm, model, pith::flat(codec), options);
}
template <class Comm>
auto joined_by(Comm& comm, std::string const& text, pith::exchange_options const& options = {}) {
  return pith::make_exchange<float>(pith::seq, comm, model, pith::parse<float>("flat(" + text + ")"), options);
}

template <class In, class C>
void require_one_vector(unsigned ranks, C const& codec) {
  CAPTURE(codec.name());
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto together = joined<In>(comm, codec), apart = joined<In>(comm, codec);
    auto whole = pith::make_exchange<In>(pith::seq, comm, one_vector, pith::any_codec<In>(codec));
    for (int step = 0; step < 4; ++step) {
      auto const given = gradient<In>(1168, comm.rank(), step);
      auto a = given, b = given, expected = given;
      together.all_reduce_mean(a);
      scattered_step(apart, b,
                     step % 2 == 0 ? std::vector<std::size_t>{3, 1, 0, 2} : std::vector<std::size_t>{2, 0, 3, 1});
      whole.all_reduce_mean(expected);
      CHECK(support::widen(a) == support::widen(expected));
      CHECK(support::widen(b) == support::widen(expected));
    }
    auto fed_back = std::vector<pith::accum<In>>();
    for (std::size_t i = 0; i < model.size(); ++i) {
      auto const own = apart.fed_back(i);
      fed_back.insert(fed_back.end(), own.begin(), own.end());
    }
    CHECK(fed_back == whole.fed_back(0));
    CHECK(apart.traffic().gathered == whole.traffic().gathered);
    CHECK(apart.report().total.wire_bytes == doctest::Approx(whole.report().total.wire_bytes));
  });
}

}  // namespace

TEST_CASE("tensors with one flat codec have the means and residuals of one vector") {
  for (unsigned ranks : {1u, 3u}) {
    for (auto const* text :
         {"ef(top_k(0.05))", "ef(scaled_sign)", "ef(block_int<4>)", "ef(two_shot(block_int<4>,ef(block_int<4>)))",
          "identity", "cast<half>", "bypass(ef(top_k(0.05)),1000)", "ring(block_int<8>)", "ef(threshold(100,0.5))"})
      require_one_vector<float>(ranks, pith::parse<float>(text));
  }
  auto const sparse = pith::error_feedback(pith::top_k(0.05));
  require_one_vector<double>(2, sparse);
  require_one_vector<pith::half>(2, sparse);
  require_one_vector<pith::bfloat16>(2, sparse);
}

TEST_CASE("a codec constructed in C++ is flat as its text is") {
  auto comm = pith::self_communicator();
  auto const codec = pith::error_feedback(pith::top_k(0.05));
  auto typed = pith::make_exchange<float>(pith::seq, comm, model, pith::flat(codec));
  auto text = joined_by(comm, "ef(top_k(0.05))");
  CHECK(typed.codecs()[0].name() == "flat(ef(top_k(0.05)))");
  auto a = gradient<float>(1168, 0, 0), b = a;
  typed.all_reduce_mean(a);
  text.all_reduce_mean(b);
  CHECK(a == b);
}

TEST_CASE("a policy joins the tensors to which it gives the flat codec") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, model,
                                               pith::matrices(pith::flat(pith::error_feedback(pith::top_k(0.05)))));
    auto matrices =
        pith::make_exchange<float>(pith::seq, comm, {{"both", {960 + 168}}}, pith::parse<float>("ef(top_k(0.05))"));
    for (int step = 0; step < 3; ++step) {
      auto g = gradient<float>(1168, comm.rank(), step);
      auto expected = std::vector<float>(g.begin(), g.begin() + 960);
      expected.insert(expected.end(), g.begin() + 1000, g.end());
      auto const other = gradient<float>(1168, 1 - comm.rank(), step);
      auto biases = std::vector<float>();
      for (std::size_t i = 960; i < 1000; ++i) biases.push_back((g[i] + other[i]) / 2);
      exchange.all_reduce_mean(g);
      matrices.all_reduce_mean(expected);
      CHECK(std::equal(expected.begin(), expected.begin() + 960, g.begin()));
      CHECK(std::equal(expected.begin() + 960, expected.end(), g.begin() + 1000));
      CHECK(std::equal(biases.begin(), biases.end(), g.begin() + 960));
    }
  });
}

TEST_CASE("each tensor bucket has vectors of its own") {
  auto comm = pith::self_communicator();
  auto const bytes = 220 * sizeof(float);  // head, none and bias; then weight
  auto exchange = joined_by(comm, "top_k(0.05,packed_indices)", {.bucket_bytes = bytes});
  CHECK(exchange.buckets() == 2);
  auto g = gradient<float>(1168, 0, 0);
  exchange.all_reduce_mean(g);
  CHECK(std::count_if(g.begin(), g.begin() + 960, [](float x) { return x != 0; }) == 48);
  CHECK(std::count_if(g.begin() + 960, g.end(), [](float x) { return x != 0; }) == 10);  // 0.05 of 208
}

TEST_CASE("a training with flat codecs is saved, restored and reported") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto first = joined_by(comm, "ef(top_k(0.05))", {.is_recoverable = true});
    auto second = joined_by(comm, "ef(top_k(0.05))");
    for (int step = 0; step < 3; ++step) {
      auto g = gradient<float>(1168, comm.rank(), step);
      first.all_reduce_mean(g);
    }
    auto const before = first.export_state(1), saved = first.export_state();
    CHECK(before != saved);
    second.import_state(saved);
    auto a = gradient<float>(1168, comm.rank(), 3), b = a;
    first.all_reduce_mean(a);
    scattered_step(second, b, {0, 1, 2, 3});
    CHECK(a == b);
    CHECK(first.export_state() == second.export_state());

    auto const report = first.report();
    CHECK(report.tensors[0].wire_bytes / report.tensors[3].wire_bytes == doctest::Approx(960.0 / 168));
    CHECK(report.tensors[2].wire_bytes == 0);
    first.measure_errors(gradient<float>(1168, comm.rank(), 0));
    auto whole = pith::make_exchange<float>(pith::seq, comm, one_vector, pith::parse<float>("ef(top_k(0.05))"));
    whole.measure_errors(gradient<float>(1168, comm.rank(), 0));
    CHECK(first.report().total.lost.part == doctest::Approx(whole.report().total.lost.part));
    CHECK(first.report().total.lost.all == doctest::Approx(whole.report().total.lost.all));
  });
}

TEST_CASE("states of other vectors are refused") {
  auto comm = pith::self_communicator();
  auto const flat = pith::parse<float>("flat(ef(top_k(0.05)))");
  auto const made = [&](std::vector<pith::tensor_spec> const& tensors, pith::exchange_options const& options = {}) {
    return pith::make_exchange<float>(pith::seq, comm, tensors, flat, options);
  };
  auto const saved = made(model).export_state();
  auto other_order = model;
  std::swap(other_order[0], other_order[1]);
  for (auto const& tensors : {other_order, one_vector})
    CHECK_THROWS_AS(made(tensors).import_state(saved), std::invalid_argument);
  CHECK_THROWS_AS(made(model, {.bucket_bytes = 220 * sizeof(float)}).import_state(saved), std::invalid_argument);
  auto same = made(model);
  same.import_state(saved);
}

TEST_CASE("a change of flat codecs keeps the vectors and their residual") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto exchange = joined_by(comm, "ef(top_k(0.05))");
    auto whole = pith::make_exchange<float>(pith::seq, comm, one_vector, pith::parse<float>("ef(top_k(0.05))"));
    for (auto const* text : {"ef(top_k(0.05))", "ef(top_k(0.2))", "ef(scaled_sign)", "identity", "identity"}) {
      exchange.change(std::vector(4, pith::parse<float>(std::string("flat(") + text + ")")));
      whole.change({pith::parse<float>(text)});
      auto a = gradient<float>(1168, comm.rank(), 1), b = a;
      exchange.all_reduce_mean(a);
      whole.all_reduce_mean(b);
      CHECK(a == b);
    }
    auto codecs = exchange.codecs();
    codecs[3] = pith::parse<float>("flat(ef(top_k(0.1)))");
    CHECK_THROWS_WITH_AS(exchange.change(codecs), doctest::Contains("flat(c) has joined these tensors"),
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(exchange.change(std::vector(4, pith::parse<float>("identity"))),
                         doctest::Contains("must stay flat(c), got identity"), std::invalid_argument);
    CHECK_THROWS_WITH_AS(whole.change({pith::parse<float>("flat(identity)")}),
                         doctest::Contains("must not become flat(c)"), std::invalid_argument);
    auto g = gradient<float>(1168, comm.rank(), 2);
    exchange.all_reduce_mean(g);
  });
}

TEST_CASE("fitted buckets keep vectors together") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto exchange = joined_by(comm, "ef(top_k(0.05))", {.bucket_bytes = 220 * sizeof(float)});
    auto reference = joined_by(comm, "ef(top_k(0.05))", {.bucket_bytes = 220 * sizeof(float)});
    for (int step = 0; step < 4; ++step) {
      auto a = gradient<float>(1168, comm.rank(), step), b = a;
      scattered_step(exchange, a, {0, 3, 2, 1});
      reference.all_reduce_mean(b);
      CHECK(a == b);
      exchange.fit_buckets();
      CHECK(exchange.bucket_of(1) == exchange.bucket_of(3));
    }
  });
}

TEST_CASE("flat is refused where tensors cannot be joined") {
  auto comm = pith::self_communicator();
  CHECK_THROWS_WITH_AS(joined_by(comm, "bypass(sign,1000)", {.is_weighted = true}),
                       doctest::Contains("must compute a mean"), std::invalid_argument);
  for (auto const* text : {"flat(flat(identity))", "flat(ef(reduce_scatter(qsgd<8>)))", "bypass(flat(identity),8)",
                           "ef(flat(top_k(0.1)))", "flat(top_k(0.1)|qsgd<8>,2)"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(pith::parse<float>(text), std::invalid_argument);
  }
  auto const flat = pith::parse<float>("flat(ef(top_k(0.1)))");
  CHECK_THROWS_WITH_AS(pith::make_adaptive_exchange<float>(pith::seq, comm, model, flat, pith::accordion()),
                       doctest::Contains("each tensor must have a rate of its own"), std::invalid_argument);
  auto const weights = [&](pith::tensor_spec const&) { return pith::parse<float>("flat(cast<bfloat16>)"); };
  CHECK_THROWS_WITH_AS(pith::bypass(flat, 8), doctest::Contains("flat(c) must contain all other codecs"),
                       std::invalid_argument);
  CHECK_THROWS_AS(pith::two_shot(pith::identity(), flat), std::invalid_argument);
  CHECK_THROWS_WITH_AS(pith::make_sharded_exchange<float>(pith::seq, comm, model,
                                                          pith::parse<float>("reduce_scatter(qsgd<8>)"), weights),
                       doctest::Contains("a weight codec must not be flat"), std::invalid_argument);
}
