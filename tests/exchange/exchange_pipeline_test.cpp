// tests/exchange/exchange_pipeline_test.cpp — steps of several buckets, of gradients that are ready one by one.
#include <pith/adaptor/bypass.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/summed_sign.hpp>
#include <pith/transform/hadamard.hpp>

#include <doctest/doctest.h>

#include "support/late.hpp"
#include "support/parsed.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using pith::gather;

namespace {

using any = pith::any_codec<float, pith::seq_executor>;
constexpr auto all_in_one = std::numeric_limits<std::size_t>::max();

std::vector<pith::tensor_spec> const piped_tensors = {{"weight", {40 * 24, 40}}, {"bias", {40}}, {"none", {0}},
                                                      {"head", {24 * 7, 24}},    {"scale", {1}}, {"last", {300}}};

constexpr std::size_t elements = 40 * 24 + 40 + 24 * 7 + 1 + 300;

std::vector<float> piped_gradient(std::size_t n, unsigned rank, int step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = static_cast<float>(static_cast<int>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 33) - 16) / 16;
  }
  return g;
}

/// What a rank has after some steps.
struct outcome {
  std::vector<std::vector<float>> means;
  std::vector<std::byte> state;

  friend bool operator==(outcome const&, outcome const&) = default;
};

constexpr int steps = 3;

/// Steps by one call.
struct at_once {
  template <class Exchange>
  void operator()(Exchange& exchange, std::vector<float>& g, unsigned, int) const {
    exchange.all_reduce_mean(g);
  }
};

/// Steps whose tensors are ready from the last to the first, or from the first, or in an order that each rank draws.
enum class order { backward, forward, drawn };
struct one_by_one {
  order how;

  template <class Exchange>
  void operator()(Exchange& exchange, std::vector<float>& g, unsigned rank, int step) const {
    auto turns = std::vector<std::size_t>(piped_tensors.size());
    std::iota(turns.begin(), turns.end(), std::size_t{0});
    if (how == order::backward) std::reverse(turns.begin(), turns.end());
    if (how == order::drawn) std::shuffle(turns.begin(), turns.end(), std::mt19937(rank * 100u + unsigned(step)));
    exchange.begin(g);
    for (auto i : turns) exchange.ready(i);
    exchange.wait();
  }
};

template <class Comm, class Step>
outcome run_steps(Comm& comm, any const& codec, pith::exchange_options const& options, Step const& step) {
  auto exchange = pith::make_exchange<float>(pith::seq, comm, piped_tensors, codec, options);
  auto own = outcome();
  for (int t = 0; t < steps; ++t) {
    auto g = piped_gradient(exchange.size(), comm.rank(), t);
    step(exchange, g, comm.rank(), t);
    own.means.push_back(g);
  }
  own.state = exchange.export_state();
  return own;
}

/// The outcomes of all ranks, over transfers that complete in the `patience`-th test().
template <class Step>
std::vector<outcome> run(unsigned ranks, any const& codec, pith::exchange_options const& options, Step const& step,
                         int patience = 0) {
  auto all = std::vector<outcome>(ranks);
  pith::run_ranks(ranks, [&](pith::thread_communicator threads) {
    if (patience == 0) {
      all[threads.rank()] = run_steps(threads, codec, options, step);
    } else {
      auto comm = support::late_communicator(threads, patience);
      all[threads.rank()] = run_steps(comm, codec, options, step);
    }
  });
  return all;
}

struct setting {
  char const* codec;
  gather how = gather::padded;
};
constexpr setting settings[] = {
    {"identity"},
    {"ef(top_k(0.1)|qsgd<4>)"},
    {"ef(power_sgd(2))"},
    {"summed_terngrad"},
    {"ef(two_shot(scaled_sign,ef(scaled_sign)))"},
    {"ef(reduce_scatter(qsgd<8>))"},
    {"ef(ring(qsgd<8>),unverified)"},
    {"g_top_k(0.1)"},
    {"ef(hierarchical(qsgd<8>,two_shot(scaled_sign,ef(scaled_sign)),1))"},
    {"ef(threshold(0.5,0.5))", gather::exact},
    {"ef(threshold(0.5,0.5))", gather::predicted},
};

}  // namespace

TEST_CASE("the bits do not depend on buckets") {
  for (auto const& s : settings) {
    for (unsigned ranks : {1u, 2u, 3u}) {
      auto const expected = run(ranks, pith::parse<float>(s.codec), {3, s.how, all_in_one}, at_once());
      for (std::size_t bytes : {0u, 700u, 4000u}) {
        CAPTURE(s.codec);
        CAPTURE(ranks);
        CAPTURE(bytes);
        CHECK(run(ranks, pith::parse<float>(s.codec), {3, s.how, bytes}, at_once()) == expected);
      }
    }
  }
}

TEST_CASE("the bits do not depend on when gradients are ready") {
  for (auto const& s : settings) {
    auto const expected = run(3, pith::parse<float>(s.codec), {3, s.how, all_in_one}, at_once());
    for (auto when : {order::backward, order::forward, order::drawn}) {
      for (std::size_t bytes : {std::size_t{0}, std::size_t{700}, all_in_one}) {
        CAPTURE(s.codec);
        CAPTURE(bytes);
        CHECK(run(3, pith::parse<float>(s.codec), {3, s.how, bytes}, one_by_one{when}) == expected);
      }
    }
  }
}

TEST_CASE("the bits do not depend on buckets that are fitted between steps") {
  for (auto const& s : settings) {
    auto const expected = run(3, pith::parse<float>(s.codec), {3, s.how, all_in_one}, at_once());
    for (auto when : {order::backward, order::drawn}) {
      for (std::size_t bytes : {std::size_t{0}, std::size_t{700}, all_in_one}) {
        auto const fitting = [&](auto& exchange, std::vector<float>& g, unsigned rank, int step) {
          one_by_one{when}(exchange, g, rank, step);
          exchange.fit_buckets();
        };
        CAPTURE(s.codec);
        CAPTURE(bytes);
        CHECK(run(3, pith::parse<float>(s.codec), {3, s.how, bytes}, fitting) == expected);
      }
    }
  }
}

TEST_CASE("fitted buckets travel in the order in which gradients were ready") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto exchange =
        pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()), {.bucket_bytes = 0});
    auto g = piped_gradient(exchange.size(), comm.rank(), 0);
    exchange.begin(g);
    for (std::size_t const i : {4u, 0u, 1u, 3u, 5u}) exchange.ready(i);
    exchange.wait();
    exchange.fit_buckets();
    CHECK(exchange.buckets() == 5);  // what has no elements joins another
    CHECK(exchange.bucket_of(4) == 0);
    CHECK(exchange.bucket_of(0) == 1);
    CHECK(exchange.bucket_of(1) == 2);
    CHECK(exchange.bucket_of(3) == 3);
    CHECK(exchange.bucket_of(5) == 4);
  });
}

TEST_CASE("fit_buckets() is refused during a step and before a step has measured the current buckets") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()));
  auto const unmeasured =
      "pith::gradient_exchange: fit_buckets() must be called after a step with these buckets and codecs: none has "
      "ended";
  CHECK_THROWS_WITH_AS(exchange.fit_buckets(), unmeasured, std::invalid_argument);
  auto g = piped_gradient(exchange.size(), 0, 0);
  exchange.begin(g);
  CHECK_THROWS_WITH_AS(exchange.fit_buckets(),
                       "pith::gradient_exchange: fit_buckets() must be called between steps: call wait() first",
                       std::invalid_argument);
  exchange.wait();
  CHECK_NOTHROW(exchange.fit_buckets());
  CHECK_THROWS_WITH_AS(exchange.fit_buckets(), unmeasured, std::invalid_argument);
  auto none = pith::make_exchange<float>(pith::seq, comm, {}, any(pith::identity()));
  none.all_reduce_mean(pith::span<float>());
  CHECK_NOTHROW(none.fit_buckets());
}

TEST_CASE("nothing is read or written while it travels") {
  for (auto const& s : settings) {
    auto const expected = run(2, pith::parse<float>(s.codec), {3, s.how, all_in_one}, at_once());
    for (int patience : {1, 3, 1000}) {
      CAPTURE(s.codec);
      CAPTURE(patience);
      CHECK(run(2, pith::parse<float>(s.codec), {3, s.how, 700}, at_once(), patience) == expected);
      CHECK(run(2, pith::parse<float>(s.codec), {3, s.how, 700}, one_by_one{order::backward}, patience) == expected);
    }
  }
}

TEST_CASE("gradients may lie anywhere") {
  auto const codec = pith::parse<float>("ef(top_k(0.1)|qsgd<4>)");
  auto const apart = [](auto& exchange, std::vector<float>& g, unsigned, int) {
    auto each = std::vector<std::vector<float>>();
    auto const* from = g.data();
    for (auto const& t : piped_tensors) {
      each.emplace_back(from, from + t.dims.n);
      from += t.dims.n;
    }
    exchange.begin();
    for (auto i = piped_tensors.size(); i-- > 0;) exchange.ready(i, each[i]);
    exchange.wait();
    auto* to = g.data();
    for (auto const& own : each) to = std::copy(own.begin(), own.end(), to);
  };
  CHECK(run(2, codec, {3, gather::padded, 700}, apart) == run(2, codec, {3}, at_once()));
}

TEST_CASE("wait() treats every gradient as ready for which ready() was not called") {
  auto const codec = pith::parse<float>("ef(scaled_sign)");
  auto const some = [](auto& exchange, std::vector<float>& g, unsigned rank, int) {
    exchange.begin(g);
    if (rank == 1) exchange.ready(5), exchange.ready(2);
    exchange.wait();
  };
  CHECK(run(3, codec, {3, gather::padded, 0}, some) == run(3, codec, {3}, at_once()));
}

TEST_CASE("an exchange may move in mid-step") {
  auto comm = pith::self_communicator();
  auto const make = [&] {
    return pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()), {.bucket_bytes = 0});
  };
  auto g = piped_gradient(elements, 0, 0);
  auto const expected = g;
  auto other = g;
  auto first = make();
  first.begin(g);
  first.ready(5);
  auto second = make();
  second.begin(other);
  second.ready(5);
  second = std::move(first);  // ends the step of what `second` was
  second.wait();
  CHECK(g == expected);
}

TEST_CASE("a skipped step changes neither gradients nor states") {
  auto const codec = pith::parse<float>("ef(top_k(0.1)|qsgd<4>)");
  auto const skipping = [](auto& exchange, std::vector<float>& g, unsigned rank, int step) {
    auto const before = exchange.export_state();
    auto other = piped_gradient(g.size(), 7 + rank, step);
    auto const untouched = other;
    exchange.skip();
    exchange.begin(other);
    exchange.skip();
    exchange.begin(other);
    exchange.ready(0);  // of the last bucket
    exchange.skip();
    CHECK(other == untouched);
    CHECK(exchange.export_state() == before);
    one_by_one{order::backward}(exchange, g, rank, step);
  };
  CHECK(run(2, codec, {3, gather::padded, 700}, skipping) == run(2, codec, {3}, at_once()));
}

TEST_CASE("a bucket that is on its way is not skipped") {
  auto comm = pith::self_communicator();
  auto exchange =
      pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()), {.bucket_bytes = 0});
  auto g = piped_gradient(exchange.size(), 0, 0);
  exchange.begin(g);
  exchange.ready(piped_tensors.size() - 1);
  CHECK_THROWS_WITH_AS(
      exchange.skip(),
      "pith::gradient_exchange: skip() must be called before a whole bucket is ready: the exchange of one has begun",
      std::invalid_argument);
  exchange.wait();
}

TEST_CASE("means are weighted by the weights that the ranks pass in each step") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()),
                                               {.bucket_bytes = 700, .is_weighted = true});
    for (int step = 0; step < 3; ++step) {
      // Whole weights whose sum is a power of two, and gradients of whole sixteenths: all is exact but 1 / 3.
      double const weights[3][3] = {{1, 2, 5}, {0, 4, 0}, {3, 3, 2}};
      auto g = piped_gradient(exchange.size(), comm.rank(), step);
      exchange.all_reduce_mean(g, weights[step][comm.rank()]);
      double total = 0;
      for (auto w : weights[step]) total += w;
      for (std::size_t i = 0; i < g.size(); ++i) {
        double mean = 0;
        for (unsigned r = 0; r < 3; ++r)
          mean += weights[step][r] * static_cast<double>(piped_gradient(i + 1, r, step)[i]) / total;
        // Rounded: the gradient times its factor (3 w / total, exact), two sums and the product with 1 / 3, each off by
        // at most 2^-24 of at most 3.
        REQUIRE(static_cast<double>(g[i]) == doctest::Approx(mean).epsilon(4 * 3 * 0x1p-24));
      }
    }
  });
}

TEST_CASE("a weighted exchange refuses codecs that compute a majority, also in change") {
  auto comm = pith::self_communicator();
  auto const make = [&](auto const& codec) {
    return pith::make_exchange<float>(pith::seq, comm, {{"w", {64}}}, codec, {.is_weighted = true});
  };
  auto const* const words =
      "pith::gradient_exchange: the codec of tensor \"w\" must compute a mean if is_weighted is set, got sign, which "
      "computes a majority";
  CHECK_THROWS_WITH_AS(make(pith::sign()), words, std::invalid_argument);
  CHECK_THROWS_AS(make(pith::hadamard() | pith::summed_sign()), std::invalid_argument);
  CHECK_THROWS_AS(make(pith::bypass(pith::sign(), 8)), std::invalid_argument);
  CHECK_THROWS_AS(make(pith::error_feedback(pith::sign(), pith::unverified)), std::invalid_argument);
  CHECK_THROWS_AS(make(pith::two_shot(pith::sign())), std::invalid_argument);
  CHECK_THROWS_AS(make(pith::bypass(pith::any_codec<float>(pith::two_shot(pith::sign())), 8)), std::invalid_argument);
  auto exchange = make(pith::identity());
  CHECK_THROWS_WITH_AS(exchange.change({pith::any_codec<float>(pith::sign())}), words, std::invalid_argument);
  CHECK_NOTHROW(exchange.change({pith::any_codec<float>(pith::scaled_sign())}));
}

TEST_CASE("the mean is zero if the weight of every rank is zero") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto exchange =
        pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()), {.is_weighted = true});
    auto g = piped_gradient(exchange.size(), comm.rank(), 0);
    exchange.all_reduce_mean(g, 0);
    CHECK(g == std::vector<float>(g.size()));
  });
}

TEST_CASE("two groups of ranks exchange at the same time") {
  auto const codec = pith::parse<float>("ef(top_k(0.1)|qsgd<4>)");
  pith::run_ranks(4, [&](pith::thread_communicator world) {
    auto row = world.split(world.rank() / 2), column = world.split(world.rank() % 2);
    auto by_row = pith::make_exchange<float>(pith::seq, row, piped_tensors, codec, {.seed = 1, .bucket_bytes = 700});
    auto by_column =
        pith::make_exchange<float>(pith::seq, column, piped_tensors, any(pith::identity()), {.bucket_bytes = 0});
    auto a = piped_gradient(by_row.size(), world.rank(), 0), b = a;
    by_row.begin(a);
    by_column.begin(b);
    for (auto i = piped_tensors.size(); i-- > 0;) by_row.ready(i), by_column.ready(i);
    by_row.wait();
    by_column.wait();
    for (std::size_t i = 0; i < b.size(); ++i) {
      auto const mean =
          (piped_gradient(i + 1, world.rank() % 2, 0)[i] + piped_gradient(i + 1, world.rank() % 2 + 2, 0)[i]) / 2;
      REQUIRE(b[i] == mean);
    }
    auto alone = pith::make_exchange<float>(pith::seq, row, piped_tensors, codec, {.seed = 1});
    auto c = piped_gradient(alone.size(), world.rank(), 0);
    alone.all_reduce_mean(c);
    CHECK(a == c);
  });
}

TEST_CASE(
    "a rank that throws in mid-step makes wait() throw on the others, which then refuse calls until import_state()") {
  for (std::size_t ready : {0u, 1u, 3u}) {
    auto const run = [&] {
      pith::run_ranks(3, [&](pith::thread_communicator comm) {
        auto g = piped_gradient(elements, comm.rank(), 0);  // outlives the exchange, which may be at work on it
        auto exchange =
            pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()), {.bucket_bytes = 0});
        auto const saved = exchange.export_state();
        exchange.begin(g);
        for (std::size_t i = 0; i < ready; ++i) exchange.ready(piped_tensors.size() - 1 - i);
        if (comm.rank() == 1) throw std::runtime_error("out of paper");
        CHECK_THROWS_AS(exchange.wait(), pith::communication_error);
        CHECK_THROWS_WITH_AS(
            exchange.begin(g),
            "pith::gradient_exchange: begin() is refused after a step that threw: call import_state() first"
            ", or, after a communication_error, import the state into a new exchange with a new communicator",
            std::invalid_argument);
        CHECK_THROWS_WITH_AS(
            exchange.wait(),
            "pith::gradient_exchange: wait() is refused after a step that threw: call import_state() first"
            ", or, after a communication_error, import the state into a new exchange with a new communicator",
            std::invalid_argument);
        exchange.import_state(saved);
        CHECK_NOTHROW(exchange.begin(g));
      });
    };
    CHECK_THROWS_WITH_AS(run(), "out of paper", std::runtime_error);
  }
}

TEST_CASE("an exchange that is destroyed in mid-step ends, though the next bucket never comes") {
  auto g = piped_gradient(elements, 0, 0);
  auto comm = support::late_communicator(pith::self_communicator(), std::numeric_limits<int>::max());
  auto exchange =
      pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()), {.bucket_bytes = 0});
  exchange.begin(g);
  auto const before = comm.begun();
  exchange.ready(piped_tensors.size() - 1);
  while (comm.begun() == before) std::this_thread::yield();
}

TEST_CASE("calls in the wrong order are refused in words") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()));
  auto g = piped_gradient(exchange.size(), 0, 0);
  auto const refused = [](auto const& call, char const* words) {
    CHECK_THROWS_WITH_AS(call(), words, std::invalid_argument);
  };
  refused([&] { exchange.ready(0); },
          "pith::gradient_exchange: ready() must be called during a step: call begin() first");
  refused([&] { exchange.wait(); }, "pith::gradient_exchange: wait() must be called during a step: call begin() first");
  refused([&] { exchange.begin(g, 2); },
          "pith::gradient_exchange::begin: weight must be 1, got 2: set exchange_options::is_weighted on all ranks");
  exchange.begin();
  refused([&] { exchange.begin(g); },
          "pith::gradient_exchange: begin() must be called between steps: call wait() first");
  refused([&] { exchange.export_state(); },
          "pith::gradient_exchange: export_state() must be called between steps: call wait() first");
  refused([&] { exchange.ready(6); }, "pith::gradient_exchange::ready: tensor must be below 6, got 6");
  refused([&] { exchange.ready(0); },
          "pith::gradient_exchange::ready: begin() was called without gradients: call ready(0, gradient)");
  refused([&] { exchange.ready(0, pith::span<float>(g.data(), 5)); },
          "pith::gradient_exchange::ready: gradient must have 960 elements, got 5");
  refused([&] { exchange.wait(); },
          "pith::gradient_exchange: wait() needs the gradient of tensor 0, \"weight\": call ready(0, gradient) first");
  exchange.ready(1, pith::span<float>(g.data(), 40));
  refused([&] { exchange.ready(1); },
          "pith::gradient_exchange::ready: tensor 1 must be ready once in a step, got a second call");
  exchange.skip();
  CHECK_NOTHROW(exchange.all_reduce_mean(g));
}

TEST_CASE("a weight is a number that is not negative") {
  auto comm = pith::self_communicator();
  auto exchange =
      pith::make_exchange<float>(pith::seq, comm, piped_tensors, any(pith::identity()), {.is_weighted = true});
  CHECK_THROWS_WITH_AS(exchange.begin(-1),
                       "pith::gradient_exchange::begin: weight must be finite and at least 0, got -1",
                       std::invalid_argument);
  CHECK_THROWS_AS(exchange.begin(std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

TEST_CASE("models of no tensors have steps too") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {}, any(pith::identity()));
    auto g = std::vector<float>();
    CHECK(exchange.buckets() == 0);
    CHECK_NOTHROW(exchange.all_reduce_mean(g));
  });
}
