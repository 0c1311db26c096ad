// tests/exchange/change_test.cpp — other codecs, or the same ones at other rates, between steps.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using float_codec = pith::any_codec<float, pith::seq_executor>;
using exchange = pith::gradient_exchange<float, pith::seq_executor, pith::thread_communicator>;

std::vector<pith::tensor_spec> const changed_tensors = {
    {"weight", {40 * 24, 40}}, {"bias", {40}}, {"none", {0}}, {"one", {1}}};

/// A gradient of rank r in step t; whole sixteenths, so that sums of a few are exact.
std::vector<float> gradient(std::size_t n, unsigned rank, int step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) {
    g[i] = static_cast<float>(static_cast<int>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 33) - 16) / 16;
  }
  return g;
}

void add(std::vector<double>& sum, std::vector<float> const& x) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += static_cast<double>(x[i]);
}

/// The mean over the ranks of the sums over the steps.
std::vector<double> made(unsigned ranks, int steps, std::size_t n) {
  auto sum = std::vector<double>(n);
  for (unsigned r = 0; r < ranks; ++r) {
    for (int step = 0; step < steps; ++step) add(sum, gradient(n, r, step));
  }
  for (auto& v : sum) v /= ranks;
  return sum;
}

/// What a rank received in so many steps; `before(exchange, step)` comes before each.
std::vector<double> received(exchange& ex, unsigned rank, int steps,
                             std::function<void(exchange&, int)> const& before) {
  auto sum = std::vector<double>(ex.size());
  for (int step = 0; step < steps; ++step) {
    before(ex, step);
    auto g = gradient(ex.size(), rank, step);
    ex.all_reduce_mean(g);
    add(sum, g);
  }
  return sum;
}

/// A step without gradients in which all that waits is sent.
void flush(exchange& ex, std::vector<double>& sum) {
  ex.change(
      std::vector<float_codec>(changed_tensors.size(), pith::error_feedback(pith::rated(pith::top_k(0.5)).at(1))));
  auto g = std::vector<float>(ex.size());
  ex.all_reduce_mean(g);
  add(sum, g);
}

std::vector<float_codec> at(std::vector<float_codec> codecs, double rate) {
  for (auto& c : codecs) c = c.at(rate);
  return codecs;
}

}  // namespace

TEST_CASE("nothing is lost while rates change, and a dense step sends all that waited") {
  for (unsigned ranks : {1u, 2u, 4u}) {
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto const rates = {0.1, 0.02, 0.5, 1.0, 0.001, 0.3, 0.3};
      auto ex = exchange(pith::seq, comm, changed_tensors, pith::error_feedback(pith::rated(pith::top_k(0.1))));
      auto sum = received(ex, comm.rank(), 14, [&](exchange& e, int step) {
        e.change(at(e.codecs(), rates.begin()[static_cast<std::size_t>(step) % rates.size()]));
      });
      CHECK(sum != made(ranks, 14, ex.size()));
      ex.change(at(ex.codecs(), 1));
      CHECK(ex.traffic().gathered == 0);
      auto g = std::vector<float>(ex.size());
      ex.all_reduce_mean(g);
      add(sum, g);
      CHECK(sum == made(ranks, 14, ex.size()));
      ex.all_reduce_mean(g = std::vector<float>(ex.size()));
      CHECK(g == std::vector<float>(ex.size()));  // the residual is zero after a dense step
    });
  }
}

TEST_CASE("the residual is kept in a change to another codec with the same feedback policy") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto const order = std::vector<float_codec>{
        pith::error_feedback(pith::top_k(0.1)), pith::bypass(pith::error_feedback(pith::random_k(0.25)), 1),
        pith::error_feedback(pith::threshold(0.75, 0.5)), pith::error_feedback(pith::rated(pith::top_k(0.05)))};
    auto ex = exchange(pith::seq, comm, changed_tensors, order[3], {.bucket_bytes = 200});
    auto sum = received(ex, comm.rank(), 12, [&](exchange& e, int step) {
      e.change(std::vector<float_codec>(changed_tensors.size(), order[static_cast<std::size_t>(step) % order.size()]));
    });
    CHECK(sum != made(2, 12, ex.size()));
    flush(ex, sum);
    CHECK(sum == made(2, 12, ex.size()));
  });
}

TEST_CASE("the residual of a mean is delivered if the new codec sends the parts of a tensor uncompressed") {
  pith::run_ranks(4, [&](pith::thread_communicator comm) {
    auto const sparse = pith::error_feedback(pith::top_k(0.1));
    auto ex = exchange(pith::seq, comm, changed_tensors, pith::two_shot(pith::identity(), sparse));
    auto sum = received(ex, comm.rank(), 3, [](exchange&, int) {});
    CHECK(sum != made(4, 3, ex.size()));
    // The weight has 960 elements, and its parts have 240.
    ex.change(
        std::vector<float_codec>(changed_tensors.size(), pith::two_shot(pith::identity(), pith::bypass(sparse, 300))));
    auto g = std::vector<float>(ex.size());
    ex.all_reduce_mean(g);
    add(sum, g);
    CHECK(sum == made(4, 3, ex.size()));
  });
}

TEST_CASE("the residual of a last part that alone is sent uncompressed is delivered") {
  pith::run_ranks(4, [&](pith::thread_communicator comm) {
    auto const sparse = pith::error_feedback(pith::top_k(0.1));
    // 1,000 elements are parts of 256, 256, 256 and 232.
    auto ex = exchange(pith::seq, comm, {{"weight", {1000}}}, pith::two_shot(pith::identity(), sparse));
    auto sum = received(ex, comm.rank(), 3, [](exchange&, int) {});
    ex.change({pith::two_shot(pith::identity(), pith::bypass(sparse, 250))});
    for (int step = 0; step < 20; ++step) {
      auto g = std::vector<float>(1000);
      ex.all_reduce_mean(g);
      add(sum, g);
    }
    CHECK(sum == made(4, 3, 1000));
  });
}

TEST_CASE("a change of rate rebuilds the states that depend on it and keeps the residual") {
  for (auto const& sparse : {float_codec(pith::error_feedback(pith::ok_top_k(0.02))),
                             float_codec(pith::error_feedback(pith::g_top_k(0.02)))}) {
    pith::run_ranks(4, [&](pith::thread_communicator comm) {
      auto ex = exchange(pith::seq, comm, changed_tensors, sparse);
      CHECK(!sparse.shares_states(sparse.at(0.5)));
      auto sum = received(ex, comm.rank(), 6, [&](exchange& e, int step) {
        e.change(std::vector<float_codec>(changed_tensors.size(), sparse.at(step % 2 == 0 ? 0.5 : 0.01)));
      });
      CHECK(sum != made(4, 6, ex.size()));
      flush(ex, sum);
      CHECK(sum == made(4, 6, ex.size()));
    });
  }
}

TEST_CASE("the residual is kept in a change to another feedback policy") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto ex = exchange(pith::seq, comm, changed_tensors, pith::error_feedback(pith::top_k(0.1)));
    auto sum = received(ex, comm.rank(), 3, [](exchange&, int) {});
    ex.change(std::vector<float_codec>(changed_tensors.size(),
                                       pith::error_feedback(pith::top_k(0.1), pith::momentum_correction(0.9))));
    flush(ex, sum);
    CHECK(sum == made(2, 3, ex.size()));
  });
}

TEST_CASE("a codec that is the same object keeps its states, another one of the same name begins again") {
  auto comm = pith::self_communicator();
  auto const low = float_codec(pith::error_feedback(pith::power_sgd(1)));
  auto one = pith::make_exchange<float>(pith::seq, comm, changed_tensors, low);
  auto two = pith::make_exchange<float>(pith::seq, comm, changed_tensors, low);
  auto const step = [](auto& ex, int t) {
    auto g = gradient(ex.size(), 0, t);
    ex.all_reduce_mean(g);
    return g;
  };
  for (int t = 0; t < 3; ++t) CHECK(step(one, t) == step(two, t));
  two.change(two.codecs());
  CHECK(step(one, 3) == step(two, 3));
  two.change(std::vector<float_codec>(changed_tensors.size(), pith::error_feedback(pith::power_sgd(1))));
  CHECK(step(one, 4) != step(two, 4));  // another warm start
}

TEST_CASE("traffic after a change of codecs equals that of an exchange built with the new codecs") {
  auto comm = pith::self_communicator();
  auto const codecs = {float_codec(pith::error_feedback(pith::threshold(0.5, 0.3))),
                       float_codec(pith::error_feedback(pith::threshold(0.9, 0.01)))};
  for (auto const how : {pith::gather::padded, pith::gather::exact, pith::gather::predicted}) {
    auto ex = pith::make_exchange<float>(pith::seq, comm, changed_tensors, codecs.begin()[0], {.gather_mode = how});
    auto g = gradient(ex.size(), 0, 0);
    ex.all_reduce_mean(g);
    for (auto const& next : codecs) {
      ex.change(std::vector<float_codec>(changed_tensors.size(), next));
      auto fresh = pith::make_exchange<float>(pith::seq, comm, changed_tensors, next, {.gather_mode = how});
      CHECK(ex.traffic().gathered == fresh.traffic().gathered);
      ex.all_reduce_mean(g = gradient(ex.size(), 0, 1));
      CHECK(ex.traffic().gathered > 0);
    }
  }
}

TEST_CASE("a change to codecs that differ between ranks throws an error with tensor and codecs, and changes nothing") {
  pith::run_ranks(3, [&](pith::thread_communicator comm) {
    auto ex = exchange(pith::seq, comm, changed_tensors, pith::error_feedback(pith::rated(pith::top_k(0.1))));
    auto codecs = ex.codecs();
    codecs[1] = codecs[1].at(comm.rank() == 2 ? 0.25 : 0.5);
    CHECK_THROWS_WITH_AS(
        ex.change(codecs),
        "pith::gradient_exchange: rank 2 differs from rank 0 in tensor 1: \"bias\" of 40 elements, codec "
        "ef(rated(top_k(0.25))), not \"bias\" of 40 elements, codec ef(rated(top_k(0.5)))",
        pith::agreement_error);
    CHECK(ex.codecs()[1].name() == "ef(rated(top_k(0.1)))");
    auto sum = received(ex, comm.rank(), 3, [](exchange&, int) {});
    flush(ex, sum);
    for (std::size_t i = 0; i < sum.size(); i += 97) CHECK(sum[i] == doctest::Approx(made(3, 3, sum.size())[i]));
  });
}

TEST_CASE("a rank whose codecs do not fit says so to all") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto ex = exchange(pith::seq, comm, changed_tensors, pith::error_feedback(pith::top_k(0.1)));
    auto codecs = ex.codecs();
    if (comm.rank() == 1) {
      codecs.pop_back();
      CHECK_THROWS_WITH_AS(ex.change(codecs), "pith::gradient_exchange::change: codecs must have 4 entries, got 3",
                           std::invalid_argument);
    } else {
      CHECK_THROWS_WITH_AS(ex.change(codecs),
                           doctest::Contains("rank 1 failed: pith::gradient_exchange::change: codecs"),
                           pith::agreement_error);
    }
    ex.begin();
    CHECK_THROWS_WITH_AS(ex.change(ex.codecs()),
                         doctest::Contains("change() must be called between steps: call wait() first"),
                         std::invalid_argument);
    ex.skip();
  });
}

TEST_CASE("a state is put back where the same codecs are in force") {
  auto comm = pith::self_communicator();
  auto const first = float_codec(pith::error_feedback(pith::rated(pith::top_k(0.1))));
  auto ex = pith::make_exchange<float>(pith::seq, comm, changed_tensors, first);
  auto other = pith::make_exchange<float>(pith::seq, comm, changed_tensors, first);
  ex.change(at(ex.codecs(), 0.5));
  auto g = gradient(ex.size(), 0, 0), same = g;
  ex.all_reduce_mean(g);
  auto const saved = ex.export_state();
  CHECK_THROWS_AS(other.import_state(saved), std::invalid_argument);
  other.change(at(other.codecs(), 0.5));
  other.import_state(saved);
  ex.all_reduce_mean(g = gradient(ex.size(), 0, 1));
  other.all_reduce_mean(same = gradient(ex.size(), 0, 1));
  CHECK(g == same);
}

TEST_CASE("a damaged state on one rank is refused by all ranks, which keep their own states") {
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto ex = exchange(pith::seq, comm, changed_tensors, pith::error_feedback(pith::rated(pith::top_k(0.1))));
    auto saved = ex.export_state();
    auto const codecs = ex.codecs();
    ex.change(at(codecs, 0.5));
    auto const before = ex.export_state();
    if (comm.rank() == 1) {
      saved.back() ^= std::byte{1};
      CHECK_THROWS_WITH_AS(ex.import_state(saved, codecs), doctest::Contains("the state is damaged"),
                           std::invalid_argument);
    } else {
      CHECK_THROWS_WITH_AS(ex.import_state(saved, codecs), doctest::Contains("rank 1 could not load its state"),
                           pith::agreement_error);
    }
    CHECK(ex.export_state() == before);
    if (comm.rank() == 1) saved.back() ^= std::byte{1};
    auto g = gradient(ex.size(), comm.rank(), 0);
    ex.begin(g);
    ex.ready(0);
    CHECK_THROWS_WITH_AS(ex.import_state(saved, codecs), doctest::Contains("must be called between steps"),
                         std::invalid_argument);
    ex.wait();
    ex.import_state(saved, codecs);
    CHECK(ex.export_state() == saved);
  });
}

/// Allocates memory `left` times.
struct limited_executor : pith::seq_executor {
  static inline long left = 0;

  void* allocate(std::size_t bytes) const {
    if (left-- <= 0) throw std::bad_alloc();
    return seq_executor::allocate(bytes);
  }
};

TEST_CASE("an exchange whose change lacks memory changes nothing, or fails until it imports its state") {
  using codec = pith::any_codec<float, limited_executor>;
  auto comm = pith::self_communicator();
  auto const old = codec(pith::error_feedback(pith::top_k(0.01)));
  auto const make = [&] {
    limited_executor::left = 1000;
    return pith::make_exchange<float>(limited_executor(), comm, {{"w", {1000}}, {"v", {500}}}, old,
                                      {.bucket_bytes = 0, .is_recoverable = true});
  };
  auto const step = [](auto& exchange) {
    auto g = gradient(1500, 0, 0);
    exchange.all_reduce_mean(g);
    return g;
  };
  auto same = make();
  step(same);
  auto const saved = same.export_state();
  auto const next = step(same);
  auto refused = 0, failed = 0;
  for (long most = 0;; ++most) {
    auto exchange = make();
    step(exchange);
    limited_executor::left = most;
    try {
      exchange.change({codec(pith::identity()), codec(pith::power_sgd(1))});
      break;
    } catch (std::bad_alloc const&) {
    }
    limited_executor::left = 1000;
    if (exchange.has_failed()) {
      ++failed;
      CHECK_THROWS_AS(step(exchange), std::invalid_argument);
      exchange.import_state(saved, {old, old});
    } else {
      ++refused;
      CHECK(exchange.export_state() == saved);
    }
    CHECK(step(exchange) == next);
  }
  CHECK(refused > 0);
  CHECK(failed > 0);
}

TEST_CASE("change_alone refuses another number of codecs, and energies() a tensor that does not exist") {
  auto comm = pith::self_communicator();
  auto ex = pith::make_exchange<float>(pith::seq, comm, {{"a", {8}}, {"b", {8}}}, pith::identity());
  CHECK_THROWS_WITH_AS(ex.change_alone({float_codec(pith::identity())}),
                       "pith::gradient_exchange::change_alone: codecs must have 2 entries, got 1",
                       std::invalid_argument);
  CHECK_THROWS_AS(ex.energies(2), std::invalid_argument);
}

TEST_CASE("a codec without a rate says so") {
  auto const sign = float_codec(pith::error_feedback(pith::scaled_sign()));
  CHECK(!sign.has_rate());
  CHECK_THROWS_WITH_AS(sign.at(0.1), "pith::any_codec::at: the codec must have an adjustable rate, got ef(scaled_sign)",
                       std::invalid_argument);
  CHECK(float_codec(pith::bypass(float_codec(pith::error_feedback(pith::top_k(0.1))), 8)).at(0.5).name() ==
        "bypass(ef(top_k(0.5)),8)");
}
