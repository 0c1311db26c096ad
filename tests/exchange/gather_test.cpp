// tests/exchange/gather_test.cpp — payloads of variable rate, gathered at full, exact and predicted size.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/checked.hpp>
#include <pith/codec/any_chain.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/allocations.hpp"

using pith::gather;
using pith::threshold;
using any = pith::any_codec<float, pith::seq_executor>;
using dense = threshold<pith::overflow::dense>;

namespace {

constexpr auto tau = 2.0;
constexpr auto max_share = 0.25;
constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

/// Two that vary, one that is always zero, one of a fixed rate, one that is summed.
std::vector<pith::tensor_spec> const gathered_tensors = {
    {"steady", {960}}, {"burst", {800}}, {"zero", {500}}, {"picked", {200}}, {"summed", {40}}};
constexpr std::size_t varying = 3;

template <class Codec>
auto policy(Codec const& codec) {
  return [codec](pith::tensor_spec const& tensor) -> any {
    if (tensor.name == "picked") return pith::error_feedback(pith::top_k(0.1));
    if (tensor.name == "summed") return pith::identity();
    return codec;
  };
}
auto const keeping = policy(pith::error_feedback(threshold(tau, max_share)));
auto const sending_all = policy(pith::error_feedback(dense(tau, max_share)));

/// Of a thousand elements so many are large; in step 2 more of `burst` than there is room for.
unsigned large(std::size_t tensor, int step) {
  if (tensor == 1) return step == 2 ? 700 : step == 3 ? 0 : 10;
  return tensor == 2 ? 0 : 40 + 4 * static_cast<unsigned>(step);
}

/// Whole sixteenths, so that all sums are exact.
std::vector<float> gradient(std::size_t tensor, unsigned rank, int step) {
  auto g = std::vector<float>(gathered_tensors[tensor].dims.n);
  auto const s = static_cast<unsigned>(step);
  for (unsigned i = 0; i < g.size() && tensor != 2; ++i) {
    auto const small = static_cast<float>(static_cast<int>((i * 37 + rank * 11 + s * 5) % 15) - 7) / 16;
    auto const is_large = (i * 7919 + rank * 31 + s * 17) % 1000 < large(tensor, step);
    g[i] = is_large ? small + (i % 2 == 0 ? 4.0f : -4.0f) : small;
  }
  return g;
}
std::vector<float> gradients(unsigned rank, int step) {
  auto together = std::vector<float>();
  for (std::size_t t = 0; t < gathered_tensors.size(); ++t) {
    auto const g = gradient(t, rank, step);
    together.insert(together.end(), g.begin(), g.end());
  }
  return together;
}

struct history {
  std::vector<std::vector<float>> means;  ///< of the steps
  std::vector<std::size_t> bytes;
  std::vector<std::vector<std::byte>> states;  ///< of the ranks, in the end
};

/// One step for each of `how`; where it changes, the exchange is saved and made again.
template <class Policy, class Spoil>
history run(unsigned ranks, std::vector<gather> const& how, Policy const& policy, Spoil const& spoil) {
  auto all = std::vector<history>(ranks);
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto& own = all[comm.rank()];
    auto const make = [&](gather g) {
      return pith::make_exchange<float>(pith::seq, comm, gathered_tensors, policy, {.seed = 3, .gather_mode = g});
    };
    auto exchange = make(how[0]);
    for (std::size_t step = 0; step < how.size(); ++step) {
      if (step > 0 && how[step] != how[step - 1]) {
        auto const saved = exchange.export_state();
        exchange = make(how[step]);
        exchange.import_state(saved);
      }
      auto g = gradients(comm.rank(), static_cast<int>(step));
      spoil(g, comm.rank(), static_cast<int>(step));
      exchange.all_reduce_mean(g);
      own.means.push_back(g);
      own.bytes.push_back(exchange.traffic().gathered);
    }
    own.states.push_back(exchange.export_state());
  });
  for (unsigned r = 1; r < ranks; ++r) {
    for (std::size_t step = 0; step < how.size(); ++step) {
      CHECK(std::memcmp(all[0].means[step].data(), all[r].means[step].data(), 4 * all[0].means[step].size()) == 0);
    }
    CHECK(all[0].bytes == all[r].bytes);
    all[0].states.push_back(all[r].states[0]);
  }
  return all[0];
}

void nothing(std::vector<float>&, unsigned, int) {}
void nan_on_rank_1(std::vector<float>& g, unsigned rank, int step) {
  if (rank == 1 && step == 1) g[5] = std::numeric_limits<float>::quiet_NaN();
}

/// error_feedback(threshold) of one tensor on all ranks, by its definition.
class oracle {
 public:
  oracle(std::size_t tensor, unsigned ranks, bool sends_all)
      : n_(gathered_tensors[tensor].dims.n), sends_all_(sends_all), residuals_(ranks, std::vector<float>(n_)) {}

  std::vector<float> mean(std::vector<std::vector<float>> const& gradients, std::uint64_t room) {
    auto sum = std::vector<float>(n_);
    most_ = 0;
    for (std::size_t r = 0; r < gradients.size(); ++r) add(gradients[r], residuals_[r], room, sum);
    for (auto& v : sum) v /= static_cast<float>(gradients.size());
    return sum;
  }
  std::uint64_t most() const { return most_; }

 private:
  void add(std::vector<float> const& g, std::vector<float>& residual, std::uint64_t room, std::vector<float>& sum) {
    auto p = g;
    for (std::size_t i = 0; i < n_; ++i) p[i] += residual[i];
    auto const is_large = [](float v) { return !(std::abs(v) < static_cast<float>(tau)); };
    auto const found = static_cast<std::uint64_t>(std::count_if(p.begin(), p.end(), is_large));
    auto const capacity = std::min(room, static_cast<std::uint64_t>(max_share * static_cast<double>(n_)));
    auto const is_dense = sends_all_ && found > capacity;
    std::uint64_t sent = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      auto const is_sent = is_dense || (is_large(p[i]) && sent < capacity);
      sent += is_sent ? 1 : 0;
      if (is_sent) sum[i] += p[i];
      if (std::isfinite(p[i])) residual[i] = is_sent ? 0 : p[i];
    }
    most_ = std::max(most_, sent);
  }

  std::size_t n_;
  bool sends_all_;
  std::vector<std::vector<float>> residuals_;
  std::uint64_t most_ = 0;
};

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

template <class Spoil>
void check_means(unsigned ranks, std::vector<gather> const& how, bool sends_all, history const& got,
                 Spoil const& spoil) {
  std::size_t offset = 0;
  for (std::size_t t = 0; t < varying; offset += gathered_tensors[t++].dims.n) {
    auto expected = oracle(t, ranks, sends_all);
    for (std::size_t step = 0; step < how.size(); ++step) {
      auto inputs = std::vector<std::vector<float>>();
      for (unsigned r = 0; r < ranks; ++r) {
        auto g = gradients(r, static_cast<int>(step));
        spoil(g, r, static_cast<int>(step));
        auto const from = g.begin() + static_cast<std::ptrdiff_t>(offset);
        inputs.emplace_back(from, from + static_cast<std::ptrdiff_t>(gathered_tensors[t].dims.n));
      }
      auto const is_predicted = how[step] == gather::predicted && step > 0 && how[step - 1] == gather::predicted;
      auto const mean = expected.mean(inputs, is_predicted ? expected.most() + expected.most() / 4 + 8 : unlimited);
      CAPTURE(t);
      CAPTURE(step);
      CHECK(std::equal(mean.begin(), mean.end(), got.means[step].begin() + static_cast<std::ptrdiff_t>(offset), same));
    }
  }
}

/// The residual of a tensor, read from a rank's saved state. That has, per tensor, a step and the residual's values.
std::vector<float> residual(std::vector<std::byte> const& saved, std::size_t tensor) {
  auto const state = pith::detail::open_states("export_state", saved).states;
  std::size_t at = 0;
  for (std::size_t t = 0; t < tensor; ++t) at += 8 + 4 * gathered_tensors[t].dims.n;
  auto values = std::vector<float>(gathered_tensors[tensor].dims.n);
  std::memcpy(values.data(), state.data() + at + 8, 4 * values.size());
  return values;
}

/// The sum of all decoded payloads, plus the final residuals, is the sum of all gradients.
void check_conserved(unsigned ranks, history const& got) {
  std::size_t offset = 0;
  for (std::size_t t = 0; t <= varying; offset += gathered_tensors[t++].dims.n) {
    auto sum = std::vector<float>(gathered_tensors[t].dims.n);
    for (unsigned r = 0; r < ranks; ++r) {
      auto const kept = residual(got.states[r], t);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += kept[i];
    }
    for (std::size_t step = 0; step < got.means.size(); ++step) {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += got.means[step][offset + i] * static_cast<float>(ranks);
      for (unsigned r = 0; r < ranks; ++r) {
        auto const g = gradient(t, r, static_cast<int>(step));
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] -= g[i];
      }
    }
    CAPTURE(t);
    CHECK(sum == std::vector<float>(sum.size()));
  }
}

std::vector<gather> always(gather how, std::size_t steps) { return std::vector<gather>(steps, how); }

/// Sends that every count is too large.
struct liar {
  unsigned rank() const { return 0; }
  unsigned size() const { return 1; }
  template <pith::executor E>
  pith::completed all_gather(E const&, pith::span_on<E, std::byte const> mine, pith::span_on<E, std::byte> to) {
    std::memcpy(to.data(), mine.data(), mine.size());
    if (mine.size() == 4) std::memset(to.data(), 0xff, 4);
    return {};
  }
  template <pith::executor E, class T>
  pith::completed all_reduce(E const&, pith::span<T> const&, pith::reduction) {
    return {};
  }
};

/// As a stream that a graph is captured from.
struct captured : pith::seq_executor {
  bool is_capturing() const { return true; }
};

}  // namespace

TEST_CASE("every gather mode gives the mean of the sent values and keeps all others in the residuals") {
  for (unsigned ranks : {2u, 4u}) {
    for (auto how : {gather::padded, gather::exact, gather::predicted}) {
      CAPTURE(ranks);
      CAPTURE(pith::detail::gather_name(how));
      auto const steps = always(how, 9);
      auto const got = run(ranks, steps, keeping, nothing);
      check_means(ranks, steps, false, got, nothing);
      check_conserved(ranks, got);
    }
  }
}

TEST_CASE("nothing is lost where gathers follow one another") {
  auto const steps =
      std::vector{gather::padded, gather::predicted, gather::predicted, gather::predicted, gather::exact,
                  gather::exact,  gather::predicted, gather::predicted, gather::predicted, gather::padded};
  auto const got = run(4, steps, keeping, nothing);
  check_means(4, steps, false, got, nothing);
  check_conserved(4, got);
}

TEST_CASE("an exchange that is put back predicts nothing") {
  auto comm = pith::self_communicator();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, gathered_tensors, keeping,
                                             {.seed = 3, .gather_mode = gather::predicted});
  auto const start = exchange.export_state();
  auto means = std::vector<std::vector<float>>();
  auto bytes = std::vector<std::size_t>();
  for (int again = 0; again < 2; ++again) {
    exchange.import_state(start);
    for (int step = 0; step < 4; ++step) {
      means.push_back(gradients(0, step));
      exchange.all_reduce_mean(means.back());
      bytes.push_back(exchange.traffic().gathered);
    }
  }
  CHECK(std::equal(means.begin(), means.begin() + 4, means.begin() + 4));
  CHECK(std::equal(bytes.begin(), bytes.begin() + 4, bytes.begin() + 4));
}

TEST_CASE("a payload that overflows is sent densely by gather::padded and gather::exact") {
  for (auto how : {gather::padded, gather::exact}) {
    auto const steps = always(how, 6);
    auto const got = run(2, steps, sending_all, nothing);
    check_means(2, steps, true, got, nothing);
    check_conserved(2, got);
    if (how == gather::exact) CHECK(got.bytes[2] > got.bytes[1] + 4 * 700);
  }
}

TEST_CASE("a NaN on one rank reaches all and leaves no trace, whatever the gather") {
  for (auto how : {gather::padded, gather::exact, gather::predicted}) {
    auto const steps = always(how, 5);
    auto const got = run(2, steps, keeping, nan_on_rank_1);
    check_means(2, steps, false, got, nan_on_rank_1);
    CHECK(std::isnan(got.means[1][5]));
    for (float v : residual(got.states[1], 0)) REQUIRE(std::isfinite(v));
  }
}

TEST_CASE("exact gathers send less than padded ones, and predicted gathers follow the counts of the step before") {
  auto const padded = run(2, always(gather::padded, 9), keeping, nothing).bytes;
  auto const exact = run(2, always(gather::exact, 9), keeping, nothing).bytes;
  auto const predicted = run(2, always(gather::predicted, 9), keeping, nothing).bytes;
  CHECK(padded == std::vector(9, padded[0]));
  CHECK(predicted[0] == padded[0]);
  for (std::size_t step = 0; step < exact.size(); ++step) CHECK(exact[step] < padded[step]);
  CHECK(predicted[1] < padded[1]);
  CHECK(predicted[3] > predicted[2]);  // the burst of step 2 is predicted in step 3
}

TEST_CASE("a prediction does not exceed the capacity of the tensor") {
  auto comm = pith::self_communicator();
  auto const codec = pith::error_feedback(threshold(tau));
  auto const made = [&](gather how) {
    return pith::make_exchange<float>(pith::seq, comm, {{"few", {100'000, 1, 100}}}, codec, {.gather_mode = how});
  };
  auto predicted = made(gather::predicted), padded = made(gather::padded);
  auto const bytes = padded.traffic().gathered;
  for (int step = 0; step < 3; ++step) {
    auto a = std::vector<float>(100'000, 4.0f), b = a;
    predicted.all_reduce_mean(a);
    padded.all_reduce_mean(b);
    CHECK(a == b);
    CHECK(std::count(a.begin(), a.end(), 0.0f) == 100'000 - 100);
    CHECK(predicted.traffic().gathered == bytes);
  }
}

TEST_CASE("a tensor of zeros costs two counts") {
  auto comm = pith::self_communicator();
  for (std::uint64_t n : {1u, 1000u, 100000u}) {
    auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"zero", {n}}}, any(threshold(tau)),
                                               {.seed = 0, .gather_mode = gather::exact});
    auto g = std::vector<float>(n);
    exchange.all_reduce_mean(g);
    CHECK(exchange.traffic().gathered == 4 + 8);  // the second one aligned
    CHECK(g == std::vector<float>(n));
  }
}

TEST_CASE("stages that are known at run time only travel as their types do") {
  using stage = pith::any_stage<float, pith::seq_executor>;
  using chain = pith::any_chain<float, pith::seq_executor>;
  auto const typed = policy(pith::error_feedback(threshold(tau, max_share) | pith::qsgd<8>(), pith::unverified));
  auto const erased =
      policy(pith::error_feedback(chain({stage(threshold(tau, max_share)), stage(pith::qsgd<8>())}), pith::unverified));
  for (auto how : {gather::exact, gather::predicted}) {
    auto const a = run(2, always(how, 5), typed, nothing), b = run(2, always(how, 5), erased, nothing);
    CHECK(a.means == b.means);
    CHECK(a.bytes == b.bytes);
  }
}

TEST_CASE("checked() does not change the means of variable-rate payloads, and a bypassed tensor is summed") {
  auto const kept = pith::error_feedback(threshold(tau, max_share));
  pith::run_ranks(2, [&](pith::thread_communicator comm) {
    for (auto how : {gather::exact, gather::predicted}) {
      auto const flag = pith::error_flag(pith::seq);
      auto const checked = policy(pith::bypass(pith::checked(kept, flag), 100));
      auto plain =
          pith::make_exchange<float>(pith::seq, comm, gathered_tensors, keeping, {.seed = 3, .gather_mode = how});
      auto safe =
          pith::make_exchange<float>(pith::seq, comm, gathered_tensors, checked, {.seed = 3, .gather_mode = how});
      for (int step = 0; step < 5; ++step) {
        auto a = gradients(comm.rank(), step), b = a;
        plain.all_reduce_mean(a);
        safe.all_reduce_mean(b);
        CHECK(a == b);
        CHECK(safe.traffic().gathered == plain.traffic().gathered + varying * 16);
      }
      CHECK(flag.faults() == 0);
    }
  });
  auto comm = pith::self_communicator();
  auto const small = any(pith::bypass(threshold(tau), 100));
  auto exchange =
      pith::make_exchange<float>(pith::seq, comm, {{"w", {99}}}, small, {.seed = 0, .gather_mode = gather::predicted});
  auto g = std::vector<float>(99, 1.0f);
  exchange.all_reduce_mean(g);
  CHECK(exchange.traffic().gathered == 0);
  CHECK(g == std::vector<float>(99, 1.0f));
}

TEST_CASE(
    "gather::predicted is refused for variable-rate codecs without feedback, with dense overflow or with two counts") {
  auto comm = pith::self_communicator();
  auto const make = [&](any const& c) {
    pith::make_exchange<float>(pith::seq, comm, {{"w", {100}}}, c, {.seed = 0, .gather_mode = gather::predicted});
  };
  CHECK_NOTHROW(make(pith::error_feedback(threshold(tau))));
  CHECK_NOTHROW(make(pith::top_k(0.1)));
  CHECK_THROWS_WITH_AS(
      make(threshold(tau)),
      "pith::gradient_exchange: gather::predicted needs error feedback around a codec of variable rate, "
      "as error_feedback(threshold(tau, capacity)), got threshold(2) for tensor \"w\"",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(make(pith::error_feedback(dense(tau))), doctest::Contains("got ef(threshold(2,1,dense))"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(
      make(pith::error_feedback(threshold(tau) | threshold(tau), pith::unverified)),
      doctest::Contains("gather::predicted needs a payload with 1 count, got 2 of ef(threshold(2)|threshold(2),"),
      std::invalid_argument);
}

TEST_CASE("ranks with different gather modes throw an agreement error") {
  auto const build = [](pith::thread_communicator comm) {
    pith::make_exchange<float>(pith::seq, comm, gathered_tensors, keeping,
                               {.seed = 3, .gather_mode = comm.rank() == 1 ? gather::exact : gather::padded});
  };
  CHECK_THROWS_WITH_AS(pith::run_ranks(2, build),
                       doctest::Contains("rank 1 differs from rank 0 in gather_mode: exact, not padded"),
                       pith::agreement_error);
}

TEST_CASE("a count beyond the capacity is refused in words") {
  auto comm = liar();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", {100}}}, any(threshold(tau, 0.1)),
                                             {.seed = 0, .gather_mode = gather::exact});
  auto g = std::vector<float>(100, 4.0f);
  CHECK_THROWS_WITH_AS(
      exchange.all_reduce_mean(g),
      "pith::gradient_exchange: the count of tensor \"w\" from rank 0 must be at most 10, got 4294967295: "
      "the message is damaged",
      pith::communication_error);
}

TEST_CASE("gather::padded is the only gather mode that can be captured in a graph") {
  auto comm = pith::self_communicator();
  auto g = std::vector<float>(100, 4.0f);
  auto const step = [&](gather how) {
    using kept = pith::any_codec<float, captured>;
    pith::make_exchange<float>(captured(), comm, {{"w", {100}}}, kept(pith::error_feedback(threshold(tau))),
                               {.seed = 0, .gather_mode = how})
        .all_reduce_mean(g);
  };
  CHECK_NOTHROW(step(gather::padded));
  CHECK_THROWS_WITH_AS(step(gather::exact),
                       "pith::gradient_exchange::begin: gather::exact must not be captured in a graph, because sizes "
                       "change in each step: use gather::padded",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(step(gather::predicted), doctest::Contains("gather::predicted must not be captured"),
                       std::invalid_argument);
}

TEST_CASE("a step allocates nothing, whatever the gather") {
  auto comm = pith::self_communicator();
  for (auto how : {gather::padded, gather::exact, gather::predicted}) {
    auto exchange =
        pith::make_exchange<float>(pith::seq, comm, gathered_tensors, keeping, {.seed = 3, .gather_mode = how});
    for (int step = 0; step < 6; ++step) {
      auto g = gradients(0, step);
      auto const before = support::allocations.load();
      exchange.all_reduce_mean(pith::span(g));
      if (step >= 2) CHECK(support::allocations.load() == before);
    }
  }
}
