// tests/reports/change_keeps_feedback_test.cpp — a change of codecs loses no gradient.
// Kind of fault: residuals are dropped when the compression of a tensor changes. pytorch/pytorch#49418 sets a residual
// to zero when its bucket changes.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/comm/self.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/ef_sign.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/feedback/loco.hpp>
#include <pith/feedback/mean_residual.hpp>
#include <pith/feedback/momentum_correction.hpp>
#include <pith/feedback/own_residual.hpp>
#include <pith/feedback/signum_momentum.hpp>
#include <pith/feedback/two_sided.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace pith;

template <class In>
using codec_of = any_codec<In, seq_executor>;
template <class In>
using codec_maker = std::function<codec_of<In>()>;
template <class In>
using threads_exchange = gradient_exchange<In, seq_executor, thread_communicator>;

constexpr unsigned kept_ranks = 4;
std::vector<tensor_spec> const kept_tensors = {{"weight", {20 * 12, 20}}, {"bias", {43}}, {"none", {0}}, {"one", {1}}};
constexpr std::size_t kept_size = 20 * 12 + 43 + 1;

/// Codecs for which the sum of the means plus the mean of the residuals is the sum of the gradients' means.
template <class In>
std::vector<codec_maker<In>> conserving_codecs() {
  return {
      [] { return error_feedback(top_k(0.25)); },
      [] { return error_feedback(scaled_sign()); },
      [] { return error_feedback(random_k(0.25)); },
      [] { return error_feedback(power_sgd(2)); },
      [] { return error_feedback(power_sgd(1), own_residual()); },
      [] { return error_feedback(top_k(0.1), mean_residual()); },
      [] { return error_feedback(scaled_sign(), loco(0.5, 0)); },
      [] { return error_feedback(top_k(0.1), ef_sign(0.25)); },
      [] { return error_feedback(top_k(0.1), momentum_correction(0)); },
      [] { return error_feedback(top_k(0.25), two_sided(scaled_sign())); },
      [] { return error_feedback(top_k(0.25), two_sided(scaled_sign(), ef_sign(0.25))); },
      [] { return error_feedback(rated(top_k(0.1))); },
      [] { return error_feedback(ok_top_k(0.1)); },
      [] { return error_feedback(g_top_k(0.1)); },
      [] { return bypass(codec_of<In>(error_feedback(top_k(0.1))), 64); },
      [] { return bypass(codec_of<In>(hierarchical(identity(), error_feedback(top_k(0.1)), 2)), 64); },
      [] { return hierarchical(identity(), error_feedback(top_k(0.25)), 2); },
      [] { return hierarchical(identity(), error_feedback(top_k(0.1), mean_residual()), 2); },
      [] { return hierarchical(identity(), two_shot(identity(), error_feedback(top_k(0.2))), 2); },
      [] { return two_shot(identity(), error_feedback(scaled_sign())); },
      [] { return error_feedback(two_shot(top_k(0.25), error_feedback(top_k(0.25)))); },
      [] { return error_feedback(two_shot(top_k(0.1), error_feedback(top_k(0.25))), ef_sign(0.25)); },
      [] { return error_feedback(hierarchical(identity(), error_feedback(scaled_sign()), 2)); },
      [] { return error_feedback(identity()); },
      [] { return identity(); },
  };
}

template <class In>
std::vector<In> random_gradient(unsigned rank, unsigned step, unsigned seed) {
  auto random = std::mt19937(seed * 1000 + step * 10 + rank);
  auto normal = std::normal_distribution<float>();
  auto g = std::vector<In>(kept_size);
  for (auto& x : g) x = element_cast<In>(normal(random));
  return g;
}
template <class In>
double wide(In x) {
  return static_cast<double>(element_cast<accum<In>>(x));
}

/// The sums of a run: the received means, the means of the gradients, and the magnitudes that bound the rounding
/// errors.
struct run_sums {
  std::vector<double> received = std::vector<double>(kept_size), made = received, magnitude = received;

  template <class In>
  void add_gradients(unsigned step, unsigned seed) {
    for (unsigned r = 0; r < kept_ranks; ++r) {
      auto const g = random_gradient<In>(r, step, seed);
      for (std::size_t i = 0; i < kept_size; ++i) {
        made[i] += wide(g[i]) / kept_ranks;
        magnitude[i] += std::abs(wide(g[i])) / kept_ranks;
      }
    }
  }
  template <class In>
  void add_means(std::vector<In> const& means) {
    for (std::size_t i = 0; i < kept_size; ++i) {
      received[i] += wide(means[i]);
      magnitude[i] += std::abs(wide(means[i]));
    }
  }
  /// Outside feedback, a step rounds an element of In at most four times: two sums, and two conversions to In. A step
  /// rounds at most 16 sums of accum<In>. No sum exceeds the sum of the gradients of all ranks.
  template <class In>
  double largest_excess(unsigned steps) const {
    auto const of_sums = support::roundoff<accum<In>>(), of_values = support::roundoff<In>();
    auto const largest = kept_ranks * *std::max_element(magnitude.begin(), magnitude.end());
    auto excess = 0.0;
    for (std::size_t i = 0; i < kept_size; ++i) {
      auto const bound = 4 * of_values * kept_ranks * magnitude[i] + 16 * steps * of_sums * largest;
      excess = std::max(excess, std::abs(received[i] - made[i]) - bound);
    }
    return excess;
  }
};

/// Makes two steps without gradients and without compression, which deliver all residuals.
template <class In>
void flush(threads_exchange<In>& ex, run_sums& sums) {
  ex.change(std::vector<codec_of<In>>(kept_tensors.size(), identity()));
  for (int step = 0; step < 2; ++step) {
    auto g = std::vector<In>(kept_size);
    ex.all_reduce_mean(g);
    sums.add_means(g);
  }
}

template <class In>
void check_pair(codec_maker<In> const& a, codec_maker<In> const& b, unsigned seed) {
  constexpr unsigned steps = 9;
  run_ranks(kept_ranks, [&](thread_communicator comm) {
    auto random = std::mt19937(seed);
    auto ex = threads_exchange<In>(seq, comm, kept_tensors, a(), {.bucket_bytes = 300});
    auto sums = run_sums();
    for (unsigned step = 0; step < steps; ++step) {
      if (auto const draw = random() % 4; step == 4 || draw < 2)
        ex.change(std::vector<codec_of<In>>(kept_tensors.size(), step == 4 || draw == 0 ? b() : a()));
      auto g = random_gradient<In>(comm.rank(), step, seed);
      ex.all_reduce_mean(g);
      sums.add_means(g);
      sums.add_gradients<In>(step, seed);
    }
    flush(ex, sums);
    CAPTURE(a().name());
    CAPTURE(b().name());
    CHECK(sums.largest_excess<In>(steps + 2) <= 0);
  });
}

/// Checks every pair of codecs whose indices add up to a multiple of `stride`.
template <class In>
void check_pairs(unsigned stride) {
  auto const codecs = conserving_codecs<In>();
  for (unsigned i = 0; i < codecs.size(); ++i) {
    for (unsigned j = 0; j < codecs.size(); ++j)
      if ((i + j) % stride == 0) check_pair<In>(codecs[i], codecs[j], 100 * i + j);
  }
}

using float_codecs = codec_of<float>;

/// An exchange of one tensor of 32 elements on one rank, after two steps.
struct alone {
  explicit alone(float_codecs const& codec, exchange_options const& options = {})
      : ex(seq, comm, {{"weight", {32}}}, codec, options) {
    step(1), step(-0.5);
  }
  void step(float scale) {
    auto g = std::vector<float>(32);
    for (std::size_t i = 0; i < 32; ++i) g[i] = scale * static_cast<float>(i % 7 + 1), gradients[i] += g[i];
    ex.all_reduce_mean(g);
    for (std::size_t i = 0; i < 32; ++i) received[i] += g[i];
  }
  void change(float_codecs const& codec) { ex.change({codec}); }

  self_communicator comm = {};
  gradient_exchange<float, seq_executor, self_communicator> ex;
  std::vector<float> gradients = std::vector<float>(32), received = gradients;
};

template <class... Policy>
float_codecs fed(Policy const&... policy) {
  return error_feedback(top_k(0.25), policy...);
}

/// A feedback policy that declares nothing about its states.
class undeclared {
 public:
  explicit undeclared(int limit) : limit_(limit) {}

  template <class A, executor E>
  struct local {
    buffer<A, E> kept;
    void fields(field_visitor& f) { f(kept); }
  };
  std::string name() const { return "undeclared(" + std::to_string(limit_) + ")"; }
  template <real In, executor E>
  local<accum<In>, E> make_local(E const& exec, shape const& dims) const {
    return {buffer<accum<In>, E>(exec, dims.n)};
  }
  template <class In, executor E>
  void compensate(context<In, E> const& cx, auto g, auto p, auto const& mine) const {
    cx.exec.for_each_index(cx.dims.n, ext::add_residual<In>{g.data, mine.kept.data(), p.data});
  }
  template <class In, executor E>
  void update(context<In, E> const& cx, auto p, auto sent, auto& mine) const {
    auto* const kept = mine.kept.data();
    cx.exec.for_each_index(cx.dims.n, [=](std::uint64_t i) { kept[i] = p.data[i] - sent.data[i]; });
  }
  void rescale(auto const& exec, double factor, no_state&, auto& mine) const {
    ext::rescale_buffer(exec, factor, mine.kept);
  }

 private:
  int limit_;
};

}  // namespace

TEST_CASE("no change between two codecs loses a gradient - float") { check_pairs<float>(1); }
TEST_CASE("no change between two codecs loses a gradient - double") { check_pairs<double>(5); }
TEST_CASE("no change between two codecs loses a gradient - half") { check_pairs<half>(3); }
TEST_CASE("no change between two codecs loses a gradient - bfloat16") { check_pairs<bfloat16>(5); }

TEST_CASE("a residual arrives with the next mean of a lossless codec") {
  for (auto const& next :
       {float_codecs(identity()), float_codecs(error_feedback(identity())), float_codecs(bypass(fed(), 64)),
        float_codecs(error_feedback(rated(top_k(0.1)).at(1))), float_codecs(error_feedback(identity(), ef21()))}) {
    CAPTURE(next.name());
    auto a = alone(fed());
    auto const residual = a.ex.fed_back(0);
    a.change(next);
    CHECK(a.ex.fed_back(0) == residual);
    a.step(0);
    CHECK(a.received == a.gradients);
    a.step(1);
    CHECK(a.received == a.gradients);
    a.change(fed());
    CHECK(a.ex.fed_back(0) == std::vector<float>(32));
  }
}

TEST_CASE("a codec without feedback encodes the residual with the next gradient") {
  for (auto const& next : {float_codecs(cast<half>()), float_codecs(top_k(0.5)), fed(signum_momentum())}) {
    auto a = alone(fed());
    auto const residual = a.ex.fed_back(0);
    a.change(next);
    auto fresh = gradient_exchange<float, seq_executor, self_communicator>(seq, a.comm, {{"weight", {32}}}, next);
    auto g = std::vector<float>(32), with = residual;
    a.ex.all_reduce_mean(g);
    fresh.all_reduce_mean(with);
    CHECK(g == with);
  }
}

TEST_CASE("another policy takes over a residual in its own unit") {
  auto const after = [](float_codecs const& from, float_codecs const& to) {
    auto a = alone(from);
    a.change(to);
    return a.ex.fed_back(0);
  };
  auto const times = [](std::vector<float> x, float factor) {
    for (auto& v : x) v *= factor;
    return x;
  };
  auto const tail = [](std::vector<float> const& x) { return std::vector<float>(x.end() - 32, x.end()); };
  auto const e = alone(fed()).ex.fed_back(0), in_updates = alone(fed(ef_sign(0.25))).ex.fed_back(0);
  REQUIRE(e != std::vector<float>(32));
  CHECK(after(fed(), fed(mean_residual())) == e);
  CHECK(after(fed(own_residual()), fed(residual(0.5))) == e);
  CHECK(after(fed(), fed(residual<bfloat16>())) == e);  // bfloat16 represents e exactly
  CHECK(after(fed(residual<bfloat16>()), fed()) == e);
  CHECK(after(fed(residual<bfloat16>()), fed(ef_sign(0.25))) == times(e, 0.25f));
  CHECK(after(fed(), fed(ef_sign(0.25))) == times(e, 0.25f));
  CHECK(after(fed(ef_sign(0.25)), fed()) == times(in_updates, 4));
  CHECK(after(fed(ef_sign(0.25)), fed(ef_sign(0.125))) == in_updates);
  auto corrected = std::vector<float>(64);
  std::copy(e.begin(), e.end(), corrected.begin() + 32);
  CHECK(after(fed(), fed(momentum_correction(0.5))) == corrected);
  auto const both = alone(fed(momentum_correction(0.5))).ex.fed_back(0);
  CHECK(after(fed(momentum_correction(0.5)), fed(momentum_correction(0.9))) == both);
  CHECK(after(fed(momentum_correction(0.5)), fed()) == tail(both));
  CHECK(after(fed(ef21()), fed()) == std::vector<float>(32));
  CHECK(after(fed(signum_momentum(0.5)), fed()) == std::vector<float>(32));
  auto const momentum = alone(fed(signum_momentum(0.5))).ex.fed_back(0);
  CHECK(after(fed(signum_momentum(0.5)), fed(signum_momentum(0.9))) == momentum);
  auto const estimate = alone(fed(ef21())).ex.fed_back(0);
  CHECK(after(fed(ef21()), float_codecs(error_feedback(scaled_sign(), ef21()))) == estimate);
}

TEST_CASE("a change that would lose a residual is refused and changes nothing") {
  struct refusal {
    float_codecs from, to;
    char const* advice;
  };
  auto const flush = "let a step with identity() deliver the residual first";
  auto const declare = "declare the facet kept_residual or no_debt in the policy";
  auto const inside = float_codecs(two_shot(identity(), error_feedback(top_k(0.25), momentum_correction(0.5))));
  auto const outer = float_codecs(two_shot(identity(), fed()));
  for (auto const& r :
       {refusal{fed(), fed(ef21()), flush}, refusal{fed(momentum_correction(0.5)), fed(ef21()), flush},
        refusal{fed(), fed(undeclared(1)), flush}, refusal{outer, fed(ef21()), flush}, refusal{fed(), inside, flush},
        refusal{fed(undeclared(1)), fed(), declare}, refusal{fed(undeclared(1)), fed(undeclared(2)), declare},
        refusal{fed(undeclared(1)), identity(), declare}}) {
    CAPTURE(r.to.name());
    auto a = alone(r.from);
    auto const before = a.ex.export_state();
    CHECK_THROWS_WITH_AS(a.change(r.to), doctest::Contains(r.advice), std::invalid_argument);
    CHECK_THROWS_WITH_AS(a.ex.change_alone({r.to}), doctest::Contains(r.advice), std::invalid_argument);
    CHECK(a.ex.export_state() == before);
  }
  auto a = alone(fed());
  CHECK_THROWS_WITH_AS(a.change(fed(ef21())),
                       "pith::gradient_exchange::change: tensor 0, \"weight\", must keep the feedback policy residual, "
                       "got ef(top_k(0.25),ef21): let a step with identity() deliver the residual first",
                       std::invalid_argument);
  a.change(identity());
  CHECK_THROWS_AS(a.change(fed(ef21())), std::invalid_argument);
  a.step(0);
  a.change(fed(ef21()));
  auto same = alone(fed(undeclared(1)));
  auto const kept = same.ex.fed_back(0);
  same.change(error_feedback(top_k(0.5), undeclared(1)));
  CHECK(same.ex.fed_back(0) == kept);
}

TEST_CASE("a state that is saved between a change and the next step contains the undelivered residual") {
  auto a = alone(fed());
  a.change(identity());
  auto const saved = a.ex.export_state();
  auto other = alone(identity());
  other.received = a.received, other.gradients = a.gradients;
  other.ex.import_state(saved);
  CHECK(other.ex.export_state() == saved);
  other.step(0);
  CHECK(other.received == other.gradients);
  auto const after = other.ex.export_state();
  CHECK(after.size() < saved.size());
  a.ex.import_state(after);
  CHECK(a.ex.export_state() == after);
  a.ex.import_state(saved, {identity()});
  CHECK(a.ex.export_state() == saved);
  a.change(fed());
  a.ex.import_state(after, {identity()});
  CHECK(a.ex.export_state() == after);
}

TEST_CASE("reshard and rescale keep an undelivered residual") {
  auto states = std::vector<std::vector<std::byte>>(2);
  auto sums = std::vector<float>(32);
  run_ranks(2, [&](thread_communicator comm) {
    auto ex = threads_exchange<float>(seq, comm, {{"weight", {32}}}, fed());
    auto g = std::vector<float>(32);
    for (std::size_t i = 0; i < 32; ++i) g[i] = static_cast<float>(i + comm.rank());
    ex.all_reduce_mean(g);
    ex.change({identity()});
    ex.rescale(2);
    states[comm.rank()] = ex.export_state();
    ex.all_reduce_mean(g = std::vector<float>(32));
    if (comm.rank() == 0) sums = g;
  });
  REQUIRE(sums != std::vector<float>(32));
  for (unsigned ranks : {1u, 4u}) {
    auto const made = reshard(states, ranks);
    run_ranks(ranks, [&](thread_communicator comm) {
      auto ex = threads_exchange<float>(seq, comm, {{"weight", {32}}}, identity());
      ex.import_state(made[comm.rank()]);
      auto g = std::vector<float>(32);
      ex.all_reduce_mean(g);
      CHECK(g == sums);
    });
  }
}

TEST_CASE("a residual between nodes arrives after reshard has left a single node") {
  auto const nodes = float_codecs(hierarchical(identity(), fed(), 2));
  for (auto const& next : {float_codecs(identity()), fed(), float_codecs(two_shot(identity(), fed())),
                           float_codecs(hierarchical(identity(), error_feedback(top_k(0.5)), 2))}) {
    CAPTURE(next.name());
    auto states = std::vector<std::vector<std::byte>>(4);
    auto missing = std::vector<float>(32), delivered = missing;
    run_ranks(4, [&](thread_communicator comm) {
      auto ex = threads_exchange<float>(seq, comm, {{"weight", {32}}}, nodes);
      auto g = std::vector<float>(32);
      for (std::size_t i = 0; i < 32; ++i) g[i] = static_cast<float>(4 * i + comm.rank());
      ex.all_reduce_mean(g);
      states[comm.rank()] = ex.export_state();
      if (comm.rank() == 0)
        for (std::size_t i = 0; i < 32; ++i) missing[i] = static_cast<float>(4 * i) + 1.5f - g[i];
    });
    auto const made = reshard(states, 2);
    run_ranks(2, [&](thread_communicator comm) {
      auto ex = threads_exchange<float>(seq, comm, {{"weight", {32}}}, nodes);
      ex.import_state(made[comm.rank()]);
      for (auto const& codec : {next, float_codecs(identity())}) {
        ex.change({codec});
        auto g = std::vector<float>(32);
        ex.all_reduce_mean(g);
        for (std::size_t i = 0; i < 32 && comm.rank() == 0; ++i) delivered[i] += g[i];
      }
    });
    CHECK(delivered == missing);
  }
}

TEST_CASE("a copy of the states before a step contains the residual that the step delivers") {
  auto a = alone(fed(), {.is_recoverable = true});
  a.change(identity());
  auto const before = a.ex.export_state();
  a.step(1);
  CHECK(a.ex.export_state(1) == before);
  a.step(1);
  CHECK(a.ex.export_state(1).size() < before.size());
  a.ex.import_state(before);
  a.step(1);
  CHECK(a.ex.export_state(1) == before);
}

TEST_CASE("half delivers a residual above its largest number in several steps") {
  auto comm = self_communicator();
  auto ex = make_exchange<half>(seq, comm, {{"weight", {4}}}, codec_of<half>(error_feedback(top_k(0.25))));
  auto sum = std::vector<double>(4), made = sum;
  auto const step = [&](std::vector<float> const& gradient) {
    auto g = std::vector<half>(4);
    for (std::size_t i = 0; i < 4; ++i) g[i] = half(gradient[i]), made[i] += wide(g[i]);
    ex.all_reduce_mean(g);
    for (std::size_t i = 0; i < 4; ++i) sum[i] += wide(g[i]);
  };
  for (int i = 0; i < 2; ++i) step({65000, 30000, -30000, 0.1f});
  ex.change({identity()});
  step({0, 30000, -30000, 0});
  for (int i = 0; i < 2; ++i) step({0, 0, 0, 0});
  for (std::size_t i = 0; i < 4; ++i) CHECK(sum[i] == made[i]);
}
