// tests/control/adaptive_exchange_test.cpp — rates that a controller chooses: ranks agree, and nothing is lost.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/codec/chain.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/accordion.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/control/fixed_schedule.hpp>
#include <pith/control/gravac.hpp>
#include <pith/control/l_greco.hpp>
#include <pith/control/warm_up.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/failing.hpp"

namespace {

std::vector<pith::tensor_spec> const adapted_tensors = {
    {"weight", {240, 12}}, {"bias", {12}}, {"none", {0}}, {"one", {1}}};
std::vector<pith::tensor_spec> const tiny = {{"weight", {12, 4}}, {"bias", {3}}, {"one", {1}}};

/// A gradient of rank r in step t; whole sixteenths, so that sums of a few are exact. Ranks differ in size.
std::vector<float> gradient(std::size_t n, unsigned rank, std::uint64_t step) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i)
    g[i] = static_cast<float>((1u << rank) * static_cast<unsigned>((i * 37 + rank * 11 + step * 5) % 33)) / 16 - 1;
  return g;
}

/// Follows what it observed to any of five rates; to a dense one where it sees no number.
struct wanderer {
  using facets = pith::ext::facets<pith::ext::energies>;

  std::uint64_t seed = 1;
  bool is_blind = false, sends_all = false;

  std::string name() const { return "wanderer"; }
  void observe(pith::step_report const& seen) {
    is_blind = false;
    for (auto const& r : seen.tensors) {
      auto bits = std::uint64_t();
      std::memcpy(&bits, &r.kept, sizeof bits);
      if (std::isnan(r.kept)) is_blind = true;
      seed = (seed ^ bits) * 0x9E3779B97F4A7C15u + r.tensor;
    }
    seed ^= seed >> 29;
  }
  double decide(std::uint64_t step, std::uint32_t tensor) const {
    constexpr auto rates = std::array{1.0, 0.5, 0.25, 0.1, 0.01};
    return is_blind || sends_all ? 1 : rates[((seed >> 7) + step * 3 + tensor) % rates.size()];
  }
  pith::rate_list measures(std::uint64_t step, std::uint32_t) const {
    return step % 3 == 0 ? pith::rate_list{0.25} : pith::rate_list{0.5, 0.01};
  }
  std::vector<std::byte> save() const { return pith::saved_bytes(&seed, 1); }
  void load(pith::span<std::byte const> bytes) { std::memcpy(&seed, bytes.data(), sizeof seed); }
};

/// Writes down what it is shown.
struct observer {
  using facets = pith::ext::facets<pith::ext::energies, pith::ext::gradient_norms>;

  std::vector<pith::rate_report> seen = {};
  std::vector<double> gradients = {};
  double seconds = 0, learning_rate = 0;
  std::uint64_t step = 0;

  std::string name() const { return "observer"; }
  void observe(pith::step_report const& report) {
    seen.assign(report.tensors.begin(), report.tensors.end());
    gradients.assign(report.gradients.begin(), report.gradients.end());
    seconds = report.seconds;
    learning_rate = report.learning_rate;
    step = report.step;
  }
  double decide(std::uint64_t, std::uint32_t) const { return 0.25; }
  pith::rate_list measures(std::uint64_t, std::uint32_t) const { return {0.5, 0.25}; }
  std::vector<std::byte> save() const { return {}; }
  void load(pith::span<std::byte const>) {}
};

/// Chooses `odd` for tensor 0 in odd steps if it moves, and 0.25 otherwise.
struct odd_steps {
  bool moves = false;
  double odd = 0.5;

  std::string name() const { return "odd_steps"; }
  void observe(pith::step_report const&) {}
  double decide(std::uint64_t step, std::uint32_t tensor) const {
    return moves && tensor == 0 && step % 2 == 1 ? odd : 0.25;
  }
  std::vector<std::byte> save() const { return {}; }
  void load(pith::span<std::byte const>) {}
};

auto const rated_codec = pith::error_feedback(pith::rated(pith::top_k(0.25)));

void accumulate(std::vector<double>& sum, std::vector<float> const& x) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += static_cast<double>(x[i]);
}

/// Energies of p and of its k largest.
double largest(std::vector<float> p, std::size_t k) {
  std::sort(p.begin(), p.end(), [](float a, float b) { return std::abs(a) > std::abs(b); });
  double sum = 0;
  for (std::size_t i = 0; i < k; ++i) sum += static_cast<double>(p[i]) * static_cast<double>(p[i]);
  return sum;
}

}  // namespace

TEST_CASE("a controller observes energies, gradient norms and time over all ranks of the previous step") {
  pith::run_ranks(3, [](pith::thread_communicator comm) {
    auto const policy = pith::matrices(rated_codec);
    auto ex = pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, policy, observer());
    ex.set_learning_rate(0.5);
    double energy = 0, half = 0, quarter = 0, all = 0;
    for (unsigned r = 0; r < 3; ++r) {
      auto const g = gradient(ex.size(), r, 1);
      auto const weight = std::vector<float>(g.begin(), g.begin() + 240);
      energy += largest(weight, 240), half += largest(weight, 120), quarter += largest(weight, 60);
      all += largest(g, g.size());
    }
    auto g = gradient(ex.size(), comm.rank(), 1);
    ex.all_reduce_mean(g);
    CHECK(ex.controller().seen.empty());  // one step late
    ex.all_reduce_mean(g = gradient(ex.size(), comm.rank(), 2));
    auto const& o = ex.controller();
    REQUIRE(o.seen.size() == 2);  // identity measures nothing
    CHECK(o.seen[0].rate == 0.5);
    CHECK(o.seen[0].energy == energy);
    CHECK(o.seen[0].kept == half);
    CHECK(o.seen[1].energy == energy);
    CHECK(o.seen[1].kept == quarter);
    CHECK(o.seen[1].bytes < o.seen[0].bytes);
    REQUIRE(o.gradients.size() == adapted_tensors.size());
    CHECK(o.gradients[0] == energy);
    CHECK(o.gradients[0] + o.gradients[1] + o.gradients[3] == all);
    CHECK(o.gradients[2] == 0);
    CHECK(o.seconds > 0);
    CHECK(o.learning_rate == 0.5);
    CHECK(o.step == 1);
  });
}

TEST_CASE("ranks that wander never part, and nothing is lost") {
  constexpr unsigned schedules = 3'400, steps = 5;  // for each number of ranks
  for (unsigned ranks : {2u, 3u, 4u}) {
    auto const verified = ranks == 2 ? pith::verify::each_step : pith::verify::when_built;
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto ex = pith::make_adaptive_exchange<float>(pith::seq, comm, tiny, rated_codec, wanderer(),
                                                    {.bucket_bytes = 40, .verification = verified});
      auto const n = ex.size();
      std::uint64_t changes = 0;
      auto chances = std::mt19937(ranks);
      for (unsigned schedule = 0; schedule < schedules; ++schedule) {
        ex.controller().seed += chances();
        auto const spoilt = chances() % 8 == 0 ? chances() % (steps - 1) : steps + 1;
        auto sum = std::vector<double>(n), made = sum;
        for (unsigned t = 0; t <= steps; ++t) {
          auto const before = ex.codecs();
          ex.controller().sends_all = t == steps;
          auto g = t == steps ? std::vector<float>(n) : gradient(n, comm.rank(), t);
          for (unsigned r = 0; r < ranks && t < steps; ++r) accumulate(made, gradient(n, r, t));
          if (t == spoilt && comm.rank() == 1) g[3] = std::numeric_limits<float>::quiet_NaN();
          ex.all_reduce_mean(g);
          accumulate(sum, g);
          changes += before[0].name() == ex.codecs()[0].name() ? 0 : 1;
        }
        for (std::size_t i = 0; i < n; ++i) {
          if (spoilt < steps && i == 3) continue;  // the NaN replaces the other ranks' values
          if (ranks != 3) REQUIRE(sum[i] == made[i] / ranks);
          // Each of 6 means of 3 is rounded twice: values below 300 of 24 bits.
          if (ranks == 3) REQUIRE(std::abs(sum[i] - made[i] / 3) <= 6 * 2 * 300 * 0x1p-24);
        }
      }
      CHECK(10 * changes >= 3 * ex.steps());  // the rate of the matrix alone changes in 30 % of the steps
    });
  }
}

TEST_CASE("ranks whose own gains differ take the same row") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto options = pith::gravac_options{pith::factor_ladder({2, 4})};
    options.smoothing = 1;
    auto ex =
        pith::make_adaptive_exchange<float>(pith::seq, comm, {{"weight", {64}}}, rated_codec, pith::gravac(options));
    // Rank 0 has few large values, and a quarter of the elements has all of its energy. Rank 1 has equal values, and a
    // quarter has a quarter. The rank with the larger values decides.
    auto const step = [&](float few, float equal) {
      auto g = std::vector<float>(64, comm.rank() == 1 ? equal : 0);
      for (std::size_t i = 0; i < 8 && comm.rank() == 0; ++i) g[i] = few;
      ex.all_reduce_mean(g);
      return ex.controller().factor();
    };
    CHECK(step(100, 1) == 1);  // nothing is known
    CHECK(step(1, 100) == 4);
    CHECK(step(1, 1) == 1);  // equal values: a half of them is less than 0.7
    CHECK(ex.codecs()[0].name() == "ef(rated(top_k(0.25),dense))");
    CHECK(ex.controller().gain() == 1);
  });
}

TEST_CASE("a run that is cut, saved and restored goes on as one that was not") {
  auto const run = [](unsigned ranks, bool is_cut) {
    auto results = std::vector<std::vector<float>>(ranks);
    pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
      auto const make = [&] {
        return pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, wanderer());
      };
      auto ex = std::make_unique<decltype(make())>(make());
      for (unsigned t = 0; t < 12; ++t) {
        if (is_cut && t > 0) {
          auto const saved = ex->export_state();
          ex.reset();
          ex = std::make_unique<decltype(make())>(make());
          ex->import_state(saved);
        }
        auto g = gradient(ex->size(), comm.rank(), t);
        ex->all_reduce_mean(g);
        results[comm.rank()].insert(results[comm.rank()].end(), g.begin(), g.end());
      }
      CHECK(ex->steps() == 12);
      CHECK(std::isnan(ex->exchange().report().tensors[0].error()));
      ex->measure_errors(gradient(ex->size(), comm.rank(), 0));
      CHECK(ex->exchange().report().tensors[0].error() < 1);
    });
    return results;
  };
  CHECK(run(2, true) == run(2, false));
}

TEST_CASE("a skipped step is not observed by the controller") {
  auto comm = pith::self_communicator();
  auto ex = pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, observer());
  auto g = gradient(ex.size(), 0, 1);
  ex.skip();
  ex.begin(g);
  ex.skip();
  ex.begin(g);
  ex.skip();
  CHECK(ex.controller().seen.empty());
  ex.all_reduce_mean(g);
  CHECK(ex.steps() == 1);
  ex.begin(g = gradient(ex.size(), 0, 2));
  CHECK(ex.controller().step == 1);
  ex.skip();
  ex.all_reduce_mean(g);
  CHECK(ex.controller().step == 1);
  CHECK(ex.steps() == 2);
}

TEST_CASE("checkpoints and skipped steps before a new learning rate change no later step") {
  enum class between { nothing, checkpoint, resume, skip };
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const make = [&] {
      return pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec,
                                                 pith::accordion({.high_rate = 0.5, .low_rate = 0.1}));
    };
    auto const run = [&](between steps) {
      auto ex = std::make_unique<decltype(make())>(make());
      auto means = std::vector<float>();
      for (unsigned t = 0; t < 8; ++t) {
        if (t == 5 && steps == between::checkpoint) ex->export_state();
        if (t == 5 && steps == between::skip) ex->begin(), ex->skip();
        if (t == 5 && steps == between::resume) {
          auto const saved = ex->export_state();
          ex = std::make_unique<decltype(make())>(make());
          ex->import_state(saved);
        }
        ex->set_learning_rate(t < 5 ? 0.1 : 0.01);
        auto g = gradient(ex->size(), comm.rank(), 1);
        ex->all_reduce_mean(g);
        CHECK(ex->steps() == t + 1);
        means.insert(means.end(), g.begin(), g.end());
      }
      return means;
    };
    auto const undisturbed = run(between::nothing);
    for (auto const other : {between::checkpoint, between::resume, between::skip}) CHECK(run(other) == undisturbed);
  });
}

TEST_CASE("ranks that stopped before and after they set a learning rate export states that can be imported") {
  auto states = std::vector<std::vector<std::byte>>(2);
  auto const make = [](pith::thread_communicator& comm) {
    auto const controller = pith::accordion({.high_rate = 0.5, .low_rate = 0.1});
    return pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, controller,
                                               {.is_recoverable = true});
  };
  auto const stopped = [&](pith::thread_communicator comm) {
    auto ex = make(comm);
    auto const step = [&](double learning_rate) {
      ex.set_learning_rate(learning_rate);
      auto g = gradient(ex.size(), comm.rank(), 1);
      ex.all_reduce_mean(g);
    };
    for (int t = 0; t < 5; ++t) step(0.1);
    if (comm.rank() == 1) CHECK_THROWS_AS(step(0.01), pith::communication_error);
    states[comm.rank()] = ex.export_state();
  };
  pith::run_ranks(2, stopped);
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    auto ex = make(comm);
    ex.import_state(states[comm.rank()]);
    CHECK(ex.steps() == 5);
  });
}

TEST_CASE("the next step follows a controller that the caller changed after export_state") {
  auto comm = pith::self_communicator();
  auto const make = [&] {
    return pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, wanderer());
  };
  auto ex = make(), other = make();
  auto g = gradient(ex.size(), 0, 1);
  ex.all_reduce_mean(g);
  ex.export_state();
  ex.controller().seed += 1 << 7;
  auto const decided = ex.controller().decide(2, 0);
  other.import_state(ex.export_state());
  for (auto* const each : {&ex, &other}) {
    each->all_reduce_mean(g = gradient(ex.size(), 0, 2));
    CHECK(each->codecs()[0].name() == pith::any_codec<float, pith::seq_executor>(rated_codec).at(decided).name());
  }
}

TEST_CASE("a tensor keeps its state while the controller changes the rate of another one") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const tensors = std::vector<pith::tensor_spec>{{"moves", {40}}, {"stays", {400}}};
    auto const codec = pith::error_feedback(pith::ok_top_k(0.25));
    auto const run = [&](bool moves) {
      auto ex = pith::make_adaptive_exchange<float>(pith::seq, comm, tensors, codec, odd_steps{moves});
      auto means = std::vector<float>();
      for (unsigned t = 0; t < 6; ++t) {
        auto g = gradient(ex.size(), comm.rank(), t);
        for (auto& v : g) v = v * v * v;
        ex.all_reduce_mean(g);
        means.insert(means.end(), g.begin() + 40, g.end());
      }
      return means;
    };
    CHECK(run(true) == run(false));
  });
}

TEST_CASE("a wrong rate is refused again and again, and a mended controller goes on") {
  auto comm = pith::self_communicator();
  auto const make = [&](double rate) {
    return pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, odd_steps{true, rate});
  };
  auto ex = make(0), other = make(0.25);
  auto g = gradient(ex.size(), 0, 1);
  auto const begin = [&] { ex.begin(g); };
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK_THROWS_WITH_AS(ex.export_state(), doctest::Contains("rate must be finite and above 0, got 0"),
                         std::invalid_argument);
    CHECK_THROWS_AS(begin(), std::invalid_argument);
    CHECK(ex.steps() == 0);
  }
  ex.controller().odd = 0.25;
  ex.all_reduce_mean(g);
  other.import_state(ex.export_state());
  CHECK(other.steps() == 1);
}

TEST_CASE("calls are refused as after a failed step if measurements could not be added") {
  auto comm = support::failing_communicator(pith::self_communicator());
  auto ex = pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, observer());
  auto g = gradient(ex.size(), 0, 1);
  ex.all_reduce_mean(g);  // chooses the first rates
  comm.fail(1000, support::fault::before);
  ex.all_reduce_mean(g);
  auto const calls = 1000 - comm.left();
  comm.fail(calls - 1, support::fault::before);
  CHECK_THROWS_AS(ex.all_reduce_mean(g), support::lost_call);
  REQUIRE(!ex.exchange().has_failed());
  auto const refused = doctest::Contains("is refused after a step that threw: call import_state() first");
  CHECK_THROWS_WITH_AS(ex.skip(), refused, std::invalid_argument);
  CHECK_THROWS_WITH_AS(ex.rescale(2), refused, std::invalid_argument);
  CHECK_THROWS_WITH_AS(ex.fit_buckets(), refused, std::invalid_argument);
}

TEST_CASE("gradients that are ready one by one are measured alike") {
  auto comm = pith::self_communicator();
  auto one = pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, observer());
  auto two = pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, observer(),
                                                 {.bucket_bytes = 100});
  for (unsigned t = 1; t < 4; ++t) {
    auto a = gradient(one.size(), 0, t), b = a;
    one.all_reduce_mean(a);
    two.begin(b);
    for (auto i = adapted_tensors.size(); i-- > 0;) two.ready(i);
    two.wait();
    CHECK(a == b);
  }
  one.begin(), one.skip(), two.begin(), two.skip();  // both have seen the last step
  CHECK(one.controller().gradients == two.controller().gradients);
  REQUIRE(one.controller().seen.size() == two.controller().seen.size());
  for (std::size_t i = 0; i < one.controller().seen.size(); ++i)
    CHECK(one.controller().seen[i].kept == two.controller().seen[i].kept);
}

TEST_CASE("tensors without a rate keep their codec, and bypassed tensors measure nothing") {
  auto comm = pith::self_communicator();
  auto ex =
      pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, pith::bypass(rated_codec, 100), observer());
  for (unsigned t = 1; t < 3; ++t) {
    auto g = gradient(ex.size(), 0, t);
    ex.all_reduce_mean(g);
  }
  CHECK(ex.codecs()[1].name() == "bypass(ef(rated(top_k(0.25))),100)");
  CHECK(!ex.controller().seen.empty());
  for (auto const& r : ex.controller().seen) CHECK((r.energy > 0 && r.tensor == 0));
  auto const first_is_plain = [](pith::tensor_spec const& t) -> pith::any_codec<float, pith::seq_executor> {
    if (t.name == adapted_tensors[0].name) return pith::cast<pith::bfloat16>();
    return rated_codec;
  };
  auto plain = pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, first_is_plain, observer());
  auto g = gradient(plain.size(), 0, 1);
  plain.all_reduce_mean(g);
  CHECK(plain.codecs()[0].name() == "cast<bfloat16>");
}

TEST_CASE("schedules and other controllers choose the rates of the steps that they say") {
  auto comm = pith::self_communicator();
  auto const rates_of = [&](auto controller, unsigned steps) {
    auto ex = pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec, std::move(controller));
    ex.set_learning_rate(0.1);
    auto names = std::vector<std::string>();
    for (unsigned t = 1; t <= steps; ++t) {
      auto g = gradient(ex.size(), 0, 1);
      ex.all_reduce_mean(g);
      names.push_back(ex.codecs()[0].name());
    }
    return names;
  };
  auto const at = [](double rate) { return pith::any_codec<float, pith::seq_executor>(rated_codec).at(rate).name(); };
  using names = std::vector<std::string>;
  CHECK(rates_of(pith::fixed_schedule({{2, 0.5}, {4, 1}}), 4) == names{at(1), at(0.5), at(0.5), at(1)});
  CHECK(rates_of(pith::warm_up(0.1, 2), 5) == names{at(0.25), at(0.25), at(0.1), at(0.1), at(0.1)});
  CHECK(rates_of(pith::accordion({.high_rate = 0.5, .low_rate = 0.1}), 4) == names{at(0.5), at(0.5), at(0.1), at(0.1)});
  CHECK(rates_of(pith::l_greco({.rates = {0.01, 0.1}, .reference = 0.1, .interval = 2}), 2) == names{at(0.1), at(0.1)});
}

TEST_CASE("ranks with other controllers are refused in words") {
  pith::run_ranks(2, [](pith::thread_communicator comm) {
    auto const make = [&] {
      return pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, rated_codec,
                                                 pith::warm_up(comm.rank() == 0 ? 0.1 : 0.2, 5));
    };
    CHECK_THROWS_WITH_AS(
        make(),
        doctest::Contains(
            "pith::adaptive_exchange: rank 1 differs from rank 0 in the controller: this rank has warm_up("),
        pith::agreement_error);
  });
}

TEST_CASE("codecs that no controller could choose for are refused") {
  auto comm = pith::self_communicator();
  auto const refuses = [&](auto const& codec, char const* words) {
    CHECK_THROWS_WITH_AS(pith::make_adaptive_exchange<float>(pith::seq, comm, adapted_tensors, codec, observer()),
                         words, std::invalid_argument);
  };
  refuses(pith::cast<pith::bfloat16>(),
          "pith::adaptive_exchange: at least one codec must have an adjustable rate: write rated(c), as in "
          "error_feedback(rated(top_k(0.1)))");
  refuses(pith::error_feedback(pith::top_k(0.1)),
          "pith::adaptive_exchange: observer needs a codec that measures: write rated(c), as in "
          "error_feedback(rated(top_k(0.1)))");
}
