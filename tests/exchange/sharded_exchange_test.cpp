// tests/exchange/sharded_exchange_test.cpp — gradients to the owners of shards, and weights to all ranks.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/exchange/sharded_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/sparsify/random_k.hpp>

#include <doctest/doctest.h>

#include "support/sixteenths.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

using namespace support;

namespace {

std::vector<pith::tensor_spec> const sharded_tensors = {
    {"embedding", pith::matrix(37, 24)}, {"norm", {24}}, {"empty", {0}}, {"head", pith::matrix(5, 101)}};

/// Runs f(comm, exchange) on each rank, with feedback around the gradients' codec and `of_weights` for the weights.
template <class In, class Weights, class F>
void on_ranks(unsigned ranks, pith::sharding const& rule, Weights const& of_weights,
              pith::sharded_options const& options, F const& f) {
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto const of_gradients = pith::bypass(pith::ef(pith::reduce_scatter(pith::qsgd<8>(), rule)), 50);
    auto exchange =
        pith::make_sharded_exchange<In>(pith::seq, comm, sharded_tensors, of_gradients, of_weights, options);
    f(comm, exchange);
  });
}

/// Calls f(i) for each element that this rank updates, among those of all tensors.
template <class Exchange, class F>
void for_each_own(Exchange const& exchange, F const& f) {
  std::uint64_t first = 0;
  for (std::size_t t = 0; t < sharded_tensors.size(); first += sharded_tensors[t++].dims.n) {
    auto const own = exchange.shard(t);
    for (auto i = own.first; i < own.first + own.n; ++i) f(first + i);
  }
}

thread_local unsigned own_rank = 0;

/// A faulty codec: each rank decodes another first element.
struct receiver_dependent : pith::codec_base {
  template <class T>
  using output = T;

  std::string name() const { return "receiver_dependent"; }
  template <pith::executor E>
  void encode(pith::context<float, E> const& cx, pith::values_on<E, float const> x,
              pith::encoded_on<E, float> y) const {
    cx.exec.copy(y.values.data, x.data, cx.dims.n * sizeof(float));
  }
  template <pith::executor E>
  void decode(pith::context<float, E> const& cx, pith::encoded_on<E, float const> y,
              pith::values_on<E, float> x) const {
    cx.exec.copy(x.data, y.values.data, cx.dims.n * sizeof(float));
    if (cx.dims.n > 0) x.data[0] += static_cast<float>(own_rank);
  }
};

}  // namespace

TEST_CASE("the shards of all ranks cover each tensor once, and a bypassed tensor is whole on all ranks") {
  for (auto const& rule : {pith::sharding::equal(), pith::sharding::rows()}) {
    auto owners = std::vector<int>(37 * 24 + 24 + 5 * 101);
    auto guard = std::mutex();
    on_ranks<float>(3, rule, pith::identity(), {}, [&](auto&, auto const& exchange) {
      auto const lock = std::lock_guard(guard);
      for_each_own(exchange, [&](std::uint64_t i) { ++owners[i]; });
    });
    for (std::size_t i = 0; i < owners.size(); ++i) CHECK(owners[i] == (37 * 24 <= i && i < 37 * 24 + 24 ? 3 : 1));
  }
}

TEST_CASE("weights are bitwise equal on all ranks, and each form of weights follows the updates") {
  // Each rank subtracts its mean gradients / 64 from exact weights of below 16 in its shards. A rounding of bfloat16 is
  // at most 2^-9 of a weight; of block_int<8> at most half of 2 / 255 of the block's largest weight or difference.
  struct setting {
    pith::any_codec<float, pith::seq_executor> codec;
    pith::weight_form form;
    double bound;
  };
  for (auto const& s : {setting{pith::identity(), pith::weight_form::whole, 0},
                        setting{pith::cast<pith::bfloat16>(), pith::weight_form::whole, 16 * 0x1p-8},
                        setting{pith::block_int<8>(), pith::weight_form::whole, 16 * 0x1p-7},
                        setting{pith::identity(), pith::weight_form::difference, 16 * 0x1p-23},
                        setting{pith::block_int<8>(), pith::weight_form::difference, 16 * 0x1p-7 / 8}}) {
    CAPTURE(s.codec.name());
    auto received = std::vector<std::vector<float>>(4);
    on_ranks<float>(
        4, pith::sharding::equal(), s.codec, {.weights = s.form, .check_interval = 1}, [&](auto& comm, auto& exchange) {
          auto exact = sixteenths(exchange.weights().size(), 0);
          auto weights = exact;
          for (int step = 0; step < 10; ++step) {
            auto g = sixteenths(weights.size(), comm.rank(), step);
            exchange.begin(g);
            exchange.ready(3);
            exchange.wait();
            for_each_own(exchange, [&](std::uint64_t i) { weights[i] = exact[i] -= g[i] / 64; });
            exchange.all_gather(weights);
            double worst = 0;
            for_each_own(exchange, [&](std::uint64_t i) {
              worst = std::max(worst, std::abs(static_cast<double>(weights[i]) - static_cast<double>(exact[i])));
            });
            CHECK(worst <= s.bound);
          }
          received[comm.rank()] = weights;
        });
    replicated_mean(received);
  }
}

TEST_CASE("the first all-gather of differences is exact, and so is one after send_exact_next") {
  on_ranks<float>(2, pith::sharding::rows(), pith::block_int<4>(), {.weights = pith::weight_form::difference},
                  [&](auto&, auto& exchange) {
                    auto const exact = sixteenths(exchange.weights().size(), 0);
                    auto weights = exact;
                    exchange.all_gather(weights);
                    CHECK(same_bytes(weights, exact));
                    for (auto& w : weights) w = w * 1.01f + 0.001f;
                    auto const next = weights;
                    exchange.all_gather(weights);
                    CHECK(!same_bytes(weights, next));
                    weights = next;
                    exchange.send_exact_next();
                    exchange.all_gather(weights);
                    CHECK(same_bytes(weights, next));
                  });
}

TEST_CASE("weights whose differences overflow, or which were not finite, arrive in later all-gathers") {
  auto const check = []<class In>(auto const& codec, std::vector<double> const& values, int repeats, double bound, In) {
    CAPTURE(codec.name());
    pith::run_ranks(2, [&](pith::thread_communicator comm) {
      auto exchange = pith::make_sharded_exchange<In>(pith::seq, comm, {{"w", {300}}},
                                                      pith::ef(pith::reduce_scatter(pith::qsgd<8>())), codec,
                                                      {.weights = pith::weight_form::difference});
      auto weights = std::vector<In>();
      for (auto const value : values) {
        for (int i = 0; i < repeats; ++i) {
          weights.assign(300, pith::element_cast<In>(0.5));
          weights[7] = weights[207] = pith::element_cast<In>(value);
          exchange.all_gather(weights);
        }
        CHECK(!std::isnan(value) == std::isfinite(pith::element_cast<double>(weights[7])));
        if (std::isnan(value)) continue;
        CHECK(std::abs(pith::element_cast<double>(weights[7]) - value) <= bound * std::abs(value));
        CHECK(std::abs(pith::element_cast<double>(weights[8]) - 0.5) <= bound * std::max(0.5, std::abs(value)));
      }
    });
  };
  // The first difference may leave a whole weight. Each further difference of cast<bfloat16> leaves 2^-8 of it.
  check(pith::cast<pith::bfloat16>(), {40000, -40000, 1, 60000, -60000}, 4, 0x1p-9, pith::half());
  check(pith::cast<pith::bfloat16>(), {2e38, -2e38, 1, 3e38, -3e38}, 4, 0x1p-20, float());
  check(pith::block_int<8>(), {1, std::nan(""), 1, 1e30, std::nan(""), 1}, 20, 0x1p-20, float());
}

TEST_CASE("tensors with a lossless codec are sent whole, also as differences") {
  on_ranks<float>(2, pith::sharding::equal(), pith::identity(), {.weights = pith::weight_form::difference},
                  [&](auto&, auto& exchange) {
                    for (float const value : {1e10f, 1.f}) {
                      auto weights = std::vector<float>(exchange.weights().size(), value);
                      exchange.all_gather(weights);
                      CHECK(weights == std::vector<float>(weights.size(), value));
                    }
                  });
}

TEST_CASE("weights follow the shards of gradients whose codecs change, and their own codecs") {
  for (auto const form : {pith::weight_form::whole, pith::weight_form::difference}) {
    pith::run_ranks(2, [&](pith::thread_communicator comm) {
      using codec = pith::any_codec<float, pith::seq_executor>;
      auto const by = [](std::uint64_t first, std::uint64_t second) {
        return codec(pith::ef(pith::reduce_scatter(pith::qsgd<8>(), pith::sharding({first, second}))));
      };
      auto exchange = pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {30}}}, by(20, 10),
                                                         pith::cast<pith::bfloat16>(), {.weights = form});
      auto weights = std::vector<float>(30);
      auto const update = [&](float value) {
        auto const own = exchange.shard(0);
        for (auto i = own.first; i < own.first + own.n; ++i) weights[i] = value;
        exchange.all_gather(weights);
        CHECK(weights == std::vector<float>(30, value));
      };
      update(1);
      exchange.gradients().change({by(10, 20)});
      CHECK(exchange.shard(0).n == (comm.rank() == 0 ? 10 : 20));
      update(2);
      exchange.change_weights({codec(pith::cast<pith::half>())});
      exchange.send_exact_next();
      update(3);
      update(4);
      CHECK(exchange.weights().codecs()[0].name() == "all_gather_shards(cast<half>,sizes(10,20))");
      CHECK_THROWS_AS(exchange.change_weights({}), std::invalid_argument);
      CHECK_THROWS_AS(exchange.change_weights({codec(pith::identity()), codec(pith::identity())}),
                      std::invalid_argument);
    });
  }
}

TEST_CASE("a refused all_gather changes no weight") {
  auto comm = pith::self_communicator();
  auto exchange =
      pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {100}}}, pith::reduce_scatter(pith::qsgd<8>()),
                                         pith::block_int<8>(), {.weights = pith::weight_form::difference});
  auto weights = sixteenths(100, 0);
  exchange.all_gather(weights);
  auto const before = weights;
  exchange.begin();
  CHECK_THROWS_WITH_AS(exchange.all_gather(weights),
                       "pith::gradient_exchange: all_gather() must be called between steps: call wait() first",
                       std::invalid_argument);
  CHECK(weights == before);
}

TEST_CASE("options of a sharded exchange that differ between ranks are an error on all ranks") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto const make = [&](pith::sharded_options const& options) {
      return pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {100}}}, pith::reduce_scatter(pith::qsgd<8>()),
                                                pith::block_int<8>(), options);
    };
    auto const odd = comm.rank() == 2;
    CHECK_THROWS_WITH_AS(make({.weights = odd ? pith::weight_form::difference : pith::weight_form::whole}),
                         "pith::sharded_exchange: rank 2 differs from rank 0 in sharded_options::weights",
                         pith::agreement_error);
    CHECK_THROWS_WITH_AS(make({.check_interval = odd ? 1u : 0u}),
                         "pith::sharded_exchange: rank 2 differs from rank 0 in sharded_options::check_interval",
                         pith::agreement_error);
  });
}

TEST_CASE("the weights' state can be imported in both forms") {
  for (auto const form : {pith::weight_form::whole, pith::weight_form::difference}) {
    on_ranks<float>(2, pith::sharding::equal(), pith::qsgd<8>(), {.weights = form}, [&](auto& comm, auto& exchange) {
      auto weights = sixteenths(exchange.weights().size(), 0);
      exchange.all_gather(weights), exchange.all_gather(weights);
      auto const saved = exchange.weights().export_state(), of_gradients = exchange.gradients().export_state();
      auto resumed = pith::make_sharded_exchange<float>(
          pith::seq, comm, sharded_tensors,
          pith::bypass(pith::ef(pith::reduce_scatter(pith::qsgd<8>(), pith::sharding::equal())), 50), pith::qsgd<8>(),
          {.weights = form});
      auto const wrong = comm.rank() == 1 ? of_gradients : saved;
      if (comm.rank() == 1) CHECK_THROWS_AS(resumed.import_state(of_gradients, wrong), std::invalid_argument);
      if (comm.rank() == 0) CHECK_THROWS_AS(resumed.import_state(of_gradients, wrong), pith::agreement_error);
      CHECK_NOTHROW(resumed.import_state(of_gradients, saved));
      auto const exact = weights;
      resumed.all_gather(weights);
      auto const is_exact = form == pith::weight_form::difference;  // and by an exchange of its own
      CHECK(same_bytes(weights, exact) == is_exact);
      CHECK((resumed.weights().export_state() == saved) == is_exact);
    });
  }
}

TEST_CASE("codecs whose errors would grow in differences are refused") {
  auto comm = pith::self_communicator();
  auto const make = [&](auto const& of_weights, pith::weight_form form) {
    return pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {256}}}, pith::reduce_scatter(pith::qsgd<8>()),
                                              of_weights, {.weights = form});
  };
  auto const check = [&](auto const& codec) {
    CHECK_THROWS_WITH_AS(make(codec, pith::weight_form::difference),
                         doctest::Contains("sharded_exchange: with weight_form::difference"), std::invalid_argument);
    CHECK_NOTHROW(make(codec, pith::weight_form::whole));
  };
  check(pith::random_k(0.1, pith::options::unbiased));
  check(pith::qsgd<2>());
  check(pith::sign());
}

TEST_CASE("a wrong codec of weights on one rank is an error on all ranks, and changes nothing") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    using codec = pith::any_codec<float, pith::seq_executor>;
    auto exchange =
        pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {100}}}, pith::reduce_scatter(pith::qsgd<8>()),
                                           pith::identity(), {.weights = pith::weight_form::difference});
    for (auto const& wrong : {codec(pith::power_sgd(2)), codec(pith::qsgd<2>())}) {
      if (comm.rank() == 1) CHECK_THROWS_AS(exchange.change_weights({wrong}), std::invalid_argument);
      if (comm.rank() == 0) {
        CHECK_THROWS_WITH_AS(
            exchange.change_weights({codec(pith::cast<pith::half>())}),
            "pith::sharded_exchange::change_weights: rank 1 could not set the codecs of the weights, and "
            "no rank has changed: see the error on rank 1",
            pith::agreement_error);
      }
    }
    auto weights = sixteenths(100, 0);
    auto const exact = weights;
    exchange.all_gather(weights), exchange.all_gather(weights);
    CHECK(weights == exact);
  });
}

TEST_CASE("weights that were sent whole are the base of later differences") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    using codec = pith::any_codec<float, pith::seq_executor>;
    auto exchange =
        pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {64}}}, pith::reduce_scatter(pith::qsgd<8>()),
                                           pith::identity(), {.weights = pith::weight_form::difference});
    auto weights = std::vector<float>(64, 0.f);
    exchange.all_gather(weights);
    weights.assign(64, 1000.f);
    exchange.all_gather(weights);
    exchange.change_weights({codec(pith::block_int<8>())});
    for (std::size_t i = 0; i < 64; ++i) weights[i] = 1000 + static_cast<float>(i) / 1024;
    auto const exact = weights;
    exchange.all_gather(weights);
    // A rounding is at most half of a scale, which is at most (1 + 2^-7) / 127 of the largest difference.
    for (std::size_t i = 0; i < 64; ++i) CHECK(std::abs(weights[i] - exact[i]) <= 63.f / 1024 / 127 * 0.51f);
  });
}

TEST_CASE("tensors whose shards are lossless are sent whole") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto exchange = pith::make_sharded_exchange<float>(
        pith::seq, comm, {{"w", {1500}}}, pith::reduce_scatter(pith::qsgd<8>()),
        pith::bypass(pith::block_int<8>(), 1000), {.weights = pith::weight_form::difference});
    for (float const value : {1e10f, 1.f}) {
      auto weights = std::vector<float>(1500, value);
      exchange.all_gather(weights);
      CHECK(weights == std::vector<float>(1500, value));
    }
  });
}

TEST_CASE("a failed all_gather of differences leaves the weights of the last one") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto exchange = pith::make_sharded_exchange<float>(
        pith::seq, comm, {{"w", {100}}}, pith::reduce_scatter(pith::qsgd<8>()), pith::block_int<8>(),
        {.exchange = {.is_recoverable = true}, .weights = pith::weight_form::difference});
    auto weights = sixteenths(100, 0);
    exchange.all_gather(weights), exchange.all_gather(weights);
    auto const gradients = exchange.gradients().export_state(), one = exchange.weights().export_state();
    exchange.all_gather(weights);
    auto const two = exchange.weights().export_state(), before = exchange.weights().export_state(1);
    CHECK(before == one);
    exchange.import_state(gradients, comm.rank() == 0 ? one : two);  // of different steps
    auto const held = weights;
    exchange.all_gather(weights);  // exact, by an exchange of its own
    for (auto& w : weights) w += 1;
    CHECK_THROWS_AS(exchange.all_gather(weights), pith::agreement_error);
    CHECK(weights == held);
    CHECK_NOTHROW(exchange.weights().export_state());
    exchange.import_state(gradients, two);
    CHECK_NOTHROW(exchange.all_gather(weights));
    CHECK(weights == held);
  });
}

TEST_CASE("change_weights is refused during a step, and all_gather with whole means of gradients") {
  using codec = pith::any_codec<float, pith::seq_executor>;
  auto comm = pith::self_communicator();
  auto exchange = pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", pith::matrix(10, 10)}},
                                                     pith::reduce_scatter(pith::qsgd<8>()), pith::block_int<8>());
  auto weights = sixteenths(100, 0);
  exchange.begin();
  CHECK_THROWS_AS(exchange.change_weights({codec(pith::qsgd<8>())}), std::invalid_argument);
  exchange.skip();
  exchange.gradients().change({codec(pith::ef(pith::power_sgd(2)))});
  CHECK_THROWS_WITH_AS(exchange.all_gather(weights),
                       "pith::sharded_exchange: the codec of tensor \"w\" must contain reduce_scatter, as "
                       "ef(reduce_scatter(c)), got ef(power_sgd(2))",
                       std::invalid_argument);
}

TEST_CASE("a checksum finds weights that differ, on all ranks") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto exchange =
        pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {100}}}, pith::reduce_scatter(pith::qsgd<8>()),
                                           receiver_dependent(), {.check_interval = 2});
    own_rank = comm.rank();
    auto weights = sixteenths(100, 0);
    CHECK_NOTHROW(exchange.all_gather(weights));
    CHECK_THROWS_WITH_AS(exchange.all_gather(weights),
                         "pith::sharded_exchange: rank 1 differs from rank 0 in the weights after all_gather 2",
                         pith::agreement_error);
  });
}

TEST_CASE("all_gather refuses weights of another size, and shard() a tensor that does not exist") {
  auto comm = pith::self_communicator();
  auto exchange =
      pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", {100}}}, pith::identity(), pith::identity());
  CHECK_THROWS_WITH_AS(exchange.shard(1), "pith::sharded_exchange::shard: tensor must be below 1, got 1",
                       std::invalid_argument);
  auto weights = std::vector<float>(99);
  CHECK_THROWS_WITH_AS(exchange.all_gather(weights),
                       "pith::sharded_exchange::all_gather: weights must have 100 elements, got 99",
                       std::invalid_argument);
}

TEST_CASE("a resumed job on another number of ranks keeps the residuals") {
  auto saved = std::vector<std::vector<std::byte>>(4);
  on_ranks<float>(4, pith::sharding::equal(), pith::identity(), {}, [&](auto& comm, auto& exchange) {
    auto g = sixteenths(exchange.gradients().size(), comm.rank());
    exchange.reduce_scatter_mean(g);
    saved[comm.rank()] = exchange.gradients().export_state();
  });
  auto const resumed = pith::reshard(saved, 2);
  on_ranks<float>(2, pith::sharding::equal(), pith::identity(), {}, [&](auto& comm, auto& exchange) {
    CHECK_NOTHROW(exchange.gradients().import_state(resumed[comm.rank()]));
    CHECK(exchange.gradients().fed_back(0).size() == 37 * 24);
  });
}

TEST_CASE("codecs that give whole means, and weight codecs with state, are refused") {
  auto comm = pith::self_communicator();
  auto const make = [&](auto const& of_gradients, auto const& of_weights) {
    return pith::make_sharded_exchange<float>(pith::seq, comm, {{"w", pith::matrix(20, 20)}}, of_gradients, of_weights);
  };
  CHECK_THROWS_WITH_AS(make(pith::ef(pith::power_sgd(2)), pith::identity()),
                       "pith::sharded_exchange: the codec of tensor \"w\" must contain reduce_scatter, as "
                       "ef(reduce_scatter(c)), got ef(power_sgd(2))",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      make(pith::reduce_scatter(pith::qsgd<8>()), pith::ef(pith::qsgd<8>())),
      "pith::all_gather_shards: codec must have no state, got ef(qsgd<8>): for gradients, put feedback around the "
      "exchange, ef(all_gather_shards(c, ...))",
      std::invalid_argument);
}
