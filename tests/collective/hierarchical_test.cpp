// tests/collective/hierarchical_test.cpp — parts added up inside of nodes and exchanged between them.
#include <pith/adaptor/identity.hpp>
#include <pith/collective/g_top_k.hpp>
#include <pith/collective/hierarchical.hpp>
#include <pith/collective/ok_top_k.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/collective/ring.hpp>
#include <pith/collective/two_shot.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/threshold.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/exchanged.hpp"
#include "support/garbage.hpp"
#include "support/group.hpp"
#include "support/late.hpp"
#include "support/sixteenths.hpp"
#include "support/thread_team.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

using namespace support;
using pith::hierarchical, pith::identity;

namespace {

constexpr std::size_t hierarchical_sizes[] = {0, 1, 7, 8, 9, 100, 1000, 4099};

/// All but split.
struct splitless_communicator : private pith::self_communicator {
  using self_communicator::all_gather;
  using self_communicator::all_reduce;
  using self_communicator::all_to_all;
  using self_communicator::rank;
  using self_communicator::size;
};

/// The values as they are, and a note of each call that encoded some: hop, seed, rank and first element.
class noted : public pith::codec_base {
 public:
  using note = std::array<std::uint64_t, 4>;

  noted(std::vector<note>& notes, std::mutex& guard) : notes_(&notes), guard_(&guard) {}

  std::string name() const { return "noted"; }
  template <class In>
  std::size_t payload_bytes(pith::shape const& dims) const {
    return dims.n * sizeof(In);
  }
  template <class In, pith::executor E>
  void encode_payload(pith::context<In, E> const& cx, pith::values_on<E, In const> x,
                      pith::span_on<E, std::byte> payload, auto const&, auto&) const {
    cx.exec.copy(payload.data(), x.data, payload.size());
    auto const lock = std::lock_guard(*guard_);
    notes_->push_back({cx.id.hop, cx.id.seed, cx.id.rank, cx.id.first});
  }
  template <class In, pith::executor E>
  void decode_payload(pith::context<In, E> const& cx, pith::span_on<E, std::byte const> payload,
                      pith::values_on<E, In> x, auto const&) const {
    cx.exec.copy(x.data, payload.data(), payload.size());
  }

 private:
  std::vector<note>* notes_;
  std::mutex* guard_;
};

/// Ranks, and how many of them a node has.
struct cluster {
  unsigned ranks, per_node;
};
constexpr cluster clusters[] = {{1, 1}, {2, 1}, {2, 2}, {3, 3}, {4, 1}, {4, 2}, {4, 4}, {6, 2}, {6, 3}, {8, 2}, {8, 4}};

template <class In = float, class C>
auto group_of(C const& codec, std::size_t n, unsigned ranks) {
  return group<In, C>(codec, {n}, ranks);
}

std::vector<double> true_mean(std::vector<std::vector<float>> const& x) {
  auto mean = std::vector<double>(x[0].size());
  for (auto const& own : x) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(own[i]);
  }
  for (auto& m : mean) m /= static_cast<double>(x.size());
  return mean;
}

/// What a fed back Outer did not send of a rank's part.
std::vector<double> outer_residual(auto& local) { return kept(policy_state(std::get<1>(local.each).state).residual); }

/// The means of two steps.
template <class In, class C>
std::vector<double> two_steps(C const& codec, std::size_t n, unsigned ranks) {
  auto g = group_of<In>(codec, n, ranks);
  auto received = std::vector<double>();
  for (unsigned step = 0; step < 2; ++step) {
    auto x = std::vector<std::vector<In>>();
    for (unsigned r = 0; r < ranks; ++r) x.push_back(narrow<In>(normal_vector(n, 10 * step + r)));
    auto const mean = widen(replicated_mean(g.all_reduce(x)));
    received.insert(received.end(), mean.begin(), mean.end());
  }
  return received;
}

/// A bias that travels dense between matrices that do not, and one that varies.
auto mixed(pith::any_codec<float, pith::seq_executor> const& codec) {
  return [codec](pith::tensor_spec const& t) -> pith::any_codec<float, pith::seq_executor> {
    if (t.name == "dense") return identity();
    if (t.name == "varies") return pith::error_feedback(pith::threshold(0.5, 0.5));
    return codec;
  };
}
std::vector<pith::tensor_spec> const model = {
    {"a", {1000}}, {"dense", {37}}, {"b", {0}}, {"varies", {500}}, {"c", {4099}}};

/// Three steps of the model, in what order gradients are ready.
template <class Comm>
std::vector<float> three_steps(Comm& comm, pith::any_codec<float, pith::seq_executor> const& codec,
                               pith::exchange_options const& options, bool is_one_by_one) {
  auto exchange = pith::make_exchange<float>(pith::seq, comm, model, mixed(codec), options);
  auto all = std::vector<float>();
  for (int step = 0; step < 3; ++step) {
    auto g = sixteenths(exchange.size(), comm.rank(), step);
    exchange.begin(g);
    for (std::size_t i = model.size(); is_one_by_one && i-- > 0;) exchange.ready(i);
    exchange.wait();
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

}  // namespace

TEST_CASE("hierarchical of lossless codecs gives the mean of all gradients") {
  for (auto const& c : clusters) {
    for (auto const n : hierarchical_sizes) {
      auto const x = all_sixteenths(n, c.ranks);
      auto g = group_of(hierarchical(identity(), identity(), c.per_node), n, c.ranks);
      // Of 3 ranks means are rounded: inside, between, and by the share.
      auto const slack = c.ranks % 3 == 0 ? 16 * 4 * std::ldexp(1, -24) : 0;
      CHECK(worst(widen(replicated_mean(g.all_reduce(x))), true_mean(x)) <= slack);
    }
  }
}

TEST_CASE("one rank a node is Outer alone, one node is two_shot") {
  for (auto const n : {9u, 4099u}) {
    auto const outer = pith::error_feedback(pith::top_k(0.1));
    CHECK(two_steps<float>(hierarchical(pith::qsgd<8>(), outer, 1), n, 4) == two_steps<float>(outer, n, 4));
    auto const shots = pith::two_shot(pith::qsgd<8>());
    CHECK(two_steps<float>(hierarchical(pith::qsgd<8>(), outer, 4), n, 4) == two_steps<float>(shots, n, 4));
  }
}

TEST_CASE("a quantized mean is off by less than a unit of each rounding") {
  // A rounding is off by less than its unit, which is at most the largest number / 127 (1 + 2^-15): that of a
  // gradient, of what its node sends as two_shot, twice, and of the mean. Floats add less than 2^-16.
  auto const q = pith::qsgd<8>(127, 128, pith::norm::max);
  auto const share = (1 + std::ldexp(1, -15)) / 127;
  auto const bound = 16 * (std::pow(1 + share, 4) - 1) + std::ldexp(1, -16);
  for (auto const& c : clusters) {
    for (auto const n : hierarchical_sizes) {
      auto const x = all_sixteenths(n, c.ranks);
      auto g = group_of(hierarchical(q, pith::two_shot(q), c.per_node), n, c.ranks);
      auto const off = worst(widen(replicated_mean(g.all_reduce(x))), true_mean(x));
      CHECK(off <= bound);
      if (n >= 1000) CHECK((off > 0) == (c.ranks > 1));
    }
  }
}

TEST_CASE("all that a codec can be exchanged by goes between nodes, in any type, and all ranks agree on all bits") {
  auto const check = [](auto in, auto const& outer) {
    for (auto const per_node : {1u, 2u, 4u}) {
      auto const received = two_steps<decltype(in)>(hierarchical(pith::qsgd<8>(), outer, per_node), 3001, 8);
      CHECK(std::all_of(received.begin(), received.end(), [](double v) { return std::isfinite(v); }));
      CHECK(std::count_if(received.begin(), received.end(), [](double v) { return v != 0; }) > 300);
    }
  };
  check(float(), pith::top_k(0.1) | pith::qsgd<8>());
  check(float(), pith::error_feedback(pith::two_shot(pith::scaled_sign(), pith::error_feedback(pith::scaled_sign()))));
  check(float(), pith::error_feedback(pith::g_top_k(0.1)));
  check(float(), pith::error_feedback(pith::random_k(0.1)));
  check(float(), pith::power_sgd(2));  // of a vector: a sum
  check(double(), pith::error_feedback(pith::ring(pith::scaled_sign())));
  check(pith::half(), pith::cast<pith::bfloat16>());
  check(pith::bfloat16(), pith::error_feedback(pith::scaled_sign()));
}

TEST_CASE("levels may be more than two") {
  auto const racks = hierarchical(identity(), identity(), 2);
  for (auto const n : hierarchical_sizes) {
    auto const x = all_sixteenths(n, 8);
    CHECK(widen(replicated_mean(group_of(hierarchical(identity(), racks, 2), n, 8).all_reduce(x))) == true_mean(x));
  }
  CHECK(racks.round<float>(0, {100}, 4).among == pith::subgroup{2, 1});
  auto const three = hierarchical(identity(), racks, 2);
  CHECK(three.rounds({100}, 8) == 5);
  CHECK(three.round<float>(1, {100}, 8).among == pith::subgroup{2, 2});
  CHECK(three.round<float>(2, {100}, 8).among == pith::subgroup{2, 4});
}

TEST_CASE("the received means plus the nodes' mean residuals equal the mean gradients with feedback between nodes") {
  for (auto const& c : {cluster{4, 1}, {4, 2}, {8, 2}, {8, 4}}) {
    for (std::size_t const n : {1u, 9u, 1000u, 4099u}) {
      auto const codec = hierarchical(identity(), pith::error_feedback(pith::top_k(0.1)), c.per_node);
      auto g = group_of(codec, n, c.ranks);
      auto missing = std::vector<double>(n);
      for (int step = 0; step < 12; ++step) {
        auto const x = all_sixteenths(n, c.ranks, step);
        auto const given = true_mean(x), received = widen(replicated_mean(g.all_reduce(x)));
        for (std::size_t i = 0; i < n; ++i) missing[i] += given[i] - received[i];
      }
      auto const over = pith::tensor_parts(n, c.per_node, 8);
      for (unsigned r = 0; r < c.ranks; ++r) {
        auto const rest = outer_residual(g.local(r));
        auto const place = r % c.per_node;
        for (std::size_t i = 0; i < over.dims(place).n; ++i)
          missing[over.first(place) + i] -= rest[i] / (c.ranks / c.per_node);
      }
      // Whole sixteenths of a power of two of ranks: every number is exact.
      CHECK(missing == std::vector<double>(n));
    }
  }
}

TEST_CASE("the residual of error_feedback(hierarchical) is the compression error of the rank's own inner codec") {
  auto const codec = pith::error_feedback(hierarchical(pith::top_k(0.25), identity(), 2));
  auto g = group_of(codec, 16, 4);
  auto x = std::vector<std::vector<float>>(4, std::vector<float>(16));
  x[3][1] = 5, x[3][2] = 6, x[3][4] = 7, x[3][12] = 1;  // of each part of 8 it sends two
  g.all_reduce(x);
  auto expected = std::vector<double>(16);
  expected[1] = 5;
  CHECK(kept(policy_state(g.local(3)).residual) == expected);
  CHECK(kept(policy_state(g.local(2)).residual) == std::vector<double>(16));
}

TEST_CASE("each rank's residual matches the entries that this rank drew, on every node") {
  using namespace pith::options;
  // Each rank draws its own entries: the residual of an element is the whole element or zero.
  auto const inner = pith::random_k(0.25, none, own);
  auto const codec = pith::error_feedback(hierarchical(inner, identity(), 2));
  auto g = group_of(codec, 1000, 4);
  g.all_reduce(std::vector<std::vector<float>>(4, std::vector<float>(1000, 1)));
  for (unsigned r = 0; r < 4; ++r) {
    auto const rest = kept(policy_state(g.local(r)).residual);
    CHECK(std::count(rest.begin(), rest.end(), 0) == 250);
    CHECK(std::count(rest.begin(), rest.end(), 1) == 750);
  }
  auto const one = kept(policy_state(g.local(1)).residual), same_place = kept(policy_state(g.local(3)).residual);
  CHECK(one != same_place);
}

TEST_CASE("each nonzero element of the received mean equals the mean of the ranks' own decoded payloads") {
  using namespace pith::options;
  // Inner draws half of the entries, of each rank's gradient and of each mean, so that indices identify the payload.
  auto const inner = pith::random_k(0.5, none, own);
  auto g = group_of(pith::error_feedback(hierarchical(inner, identity(), 2)), 1000, 4);
  auto const received =
      widen(replicated_mean(g.all_reduce(std::vector<std::vector<float>>(4, std::vector<float>(1000, 1)))));
  auto mean = std::vector<double>(1000);
  for (unsigned r = 0; r < 4; ++r) {
    auto const rest = kept(policy_state(g.local(r)).residual);
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += (1 - rest[i]) / 4;
  }
  std::size_t arrived = 0, others = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    arrived += received[i] != 0 && received[i] == mean[i];
    others += received[i] != 0 && received[i] != mean[i];
  }
  // A sixteenth of the means is zero, and half of the others travel: 469, give or take 5 deviations of 15 each.
  CHECK(arrived > 394);
  CHECK(others == 0);
}

TEST_CASE("a short part is filled up with zeros, whatever lay there") {
  auto t = trial<float, hierarchical<identity, identity>>(hierarchical(identity(), identity(), 4), {100}, {7, 1, 3});
  auto& part = std::get<2>(t.state().local().each).values;
  std::fill_n(part.data(), part.size(), 42.0f);
  auto const moves = t.codec().round<float>(0, {100}, 8);
  auto const ones = std::vector<float>(moves.bytes(), 1.0f);
  auto const bytes = pith::span<std::byte const>(reinterpret_cast<std::byte const*>(ones.data()), 4 * moves.bytes());
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, t.codec(), {100}, 8));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  pith::detail::absorb<float>(t.codec(), t.state().context_on(pith::seq, ws, 8), 0,
                              pith::received<>{bytes, moves.bytes()}, pith::value_view<float>(), t.state().replicated(),
                              t.state().local());
  auto expected = std::vector<double>(32);
  std::fill_n(expected.begin(), 4, 1);
  CHECK(kept(part) == expected);
}

TEST_CASE("nodes and parts draw random numbers of their own") {
  constexpr std::size_t n = 2048;
  auto const x = std::vector<float>(n, 0.3f);
  auto const first_round = [&](unsigned rank) {
    auto t = trial<float, hierarchical<pith::qsgd<2>, identity>>(hierarchical(pith::qsgd<2>(), identity(), 2), {n},
                                                                 {7, 1, static_cast<std::uint16_t>(rank)});
    auto const moves = t.codec().round<float>(0, {n}, 4);
    auto out = std::vector<std::byte>(2 * moves.bytes());
    auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, t.codec(), {n}, 4));
    auto ws = pith::workspace<>(pith::span<std::byte>(memory));
    pith::detail::produce<float>(t.codec(), t.state().context_on(pith::seq, ws, 4), 0,
                                 pith::value_view<float const>{x.data(), n}, pith::span<std::byte>(out),
                                 t.state().replicated(), t.state().local());
    return out;
  };
  for (unsigned rank = 1; rank < 4; ++rank) CHECK_FALSE(same_bytes(first_round(0), first_round(rank)));
  auto g = group_of(hierarchical(identity(), pith::qsgd<2>(), 2), n, 4);
  auto const received = replicated_mean(g.all_reduce({x, x, x, x}));
  CHECK_FALSE(std::equal(received.begin(), received.begin() + n / 2, received.begin() + n / 2));
}

TEST_CASE("no two calls draw the same random numbers, but those of equal means") {
  auto notes = std::vector<noted::note>();
  auto guard = std::mutex();
  auto const codec = noted(notes, guard);
  auto g = group_of(hierarchical(codec, hierarchical(codec, pith::two_shot(codec), 2), 2), 1000, 8);
  g.all_reduce(all_sixteenths(1000, 8));
  // Of each of 8 ranks: two parts and a mean, the same on both levels, and two shots of as many parts.
  CHECK(notes.size() == 8 * (2 + 1 + 2 + 1 + 2 + 1));
  std::size_t means = 0;
  for (auto const& n : notes) {
    auto const times = std::count(notes.begin(), notes.end(), n);
    means += times > 1;
    CHECK(times == (n[0] == 1 ? 4 : n[0] == 3 ? 2 : 1));
  }
  CHECK(means == 8 * 2);
}

TEST_CASE("NaN reaches all ranks and leaves residuals alone") {
  auto const codec = pith::error_feedback(hierarchical(pith::qsgd<8>(), pith::error_feedback(pith::qsgd<8>()), 2));
  auto g = group_of(codec, 900, 4);
  auto x = all_sixteenths(900, 4);
  x[1][850] = static_cast<float>(not_a_number);
  CHECK(std::isnan(replicated_mean(g.all_reduce(x))[850]));
  for (unsigned r = 0; r < 4; ++r) {
    for (auto const v : kept(policy_state(g.local(r)).residual)) CHECK(std::isfinite(v));
    for (auto const v : outer_residual(std::get<0>(g.local(r).each))) CHECK(std::isfinite(v));
  }
}

TEST_CASE("wrong bytes write nothing outside of the tensor") {
  check_stays_within(hierarchical(pith::top_k(0.2), pith::g_top_k(0.2), 2), 101, 6);
  check_stays_within(hierarchical(pith::top_k(0.2) | pith::qsgd<8>(), pith::error_feedback(pith::top_k(0.2)), 4), 101,
                     8);
}

TEST_CASE("the volume is two rounds of inner payloads within nodes and one outer payload of a part between nodes") {
  constexpr std::size_t n = 1 << 20;
  auto const codec = hierarchical(pith::qsgd<8>(), pith::error_feedback(pith::top_k(0.01)), 4);
  auto const inner = pith::payload_bytes<float>(pith::qsgd<8>(), {n / 4});
  auto const outer = pith::payload_bytes<float>(pith::top_k(0.01), {n / 4});
  using pith::transport;
  CHECK(codec.rounds({n}, 8) == 3);
  CHECK(codec.round<float>(0, {n}, 8) == pith::transfer{transport::all_to_all, {}, inner, 0, {4, 1}});
  CHECK(codec.round<float>(1, {n}, 8) == pith::transfer{transport::all_gather, {}, outer, 0, {2, 4}});
  CHECK(codec.round<float>(2, {n}, 8) == pith::transfer{transport::all_gather, {}, inner, 0, {4, 1}});
  CHECK(codec.rounds({n}, 4) == 2);
  pith::run_ranks(8, [&](pith::thread_communicator comm) {
    auto const exchange = pith::make_exchange<float>(pith::seq, comm, {{"a", {n}}, {"b", {n}}}, codec);
    auto const padded = [](std::size_t bytes) { return pith::detail::align_up(bytes, 8); };
    CHECK(exchange.traffic({4, 1}).scattered == 2 * 4 * padded(inner));
    CHECK(exchange.traffic({2, 4}).gathered == 2 * padded(outer));
    CHECK(exchange.traffic({4, 1}).gathered == 2 * padded(inner));
    CHECK(exchange.traffic(pith::subgroup()).gathered == 0);
    CHECK(exchange.traffic().scattered == 2 * 4 * padded(inner));
    CHECK(exchange.traffic().gathered == 2 * padded(inner) + 2 * padded(outer));
  });
}

TEST_CASE("the local state has the values of one part and the outer codec's state for one part") {
  auto const codec = hierarchical(pith::qsgd<8>(), pith::error_feedback(pith::top_k(0.01)), 4);
  auto made = codec.make_local<float>(pith::seq, pith::shape{4096});
  CHECK(std::get<2>(made.each).values.size() == 1024);
  CHECK(policy_state(std::get<1>(made.each).state).residual.size() == 1024);
}

TEST_CASE("every executor leaves the same bytes") {
  auto const codec = pith::error_feedback(hierarchical(pith::qsgd<8>(), pith::two_shot(pith::qsgd<4>()), 1));
  CHECK(exchanged<float>(team_executor(3), codec, {20000}) == exchanged<float>(pith::seq, codec, {20000}));
}

TEST_CASE("a model's tensors travel together, as each would alone") {
  auto const outer = pith::error_feedback(pith::top_k(0.1));
  check_travels_together(pith::error_feedback(hierarchical(pith::qsgd<8>(), outer, 2)), 4);
  check_travels_together(hierarchical(pith::qsgd<8>(), pith::ring(pith::qsgd<8>()), 2), 6);
}

TEST_CASE("the bits do not depend on buckets, on when gradients are ready, or on how others are gathered") {
  auto const codec = hierarchical(pith::qsgd<8>(), pith::error_feedback(pith::two_shot(pith::scaled_sign())), 2);
  auto const run = [&](pith::exchange_options const& options, bool is_one_by_one, int patience) {
    auto all = std::vector<std::vector<float>>(4);
    pith::run_ranks(4, [&](pith::thread_communicator threads) {
      auto comm = late_communicator(threads, patience);
      all[threads.rank()] = three_steps(comm, codec, options, is_one_by_one);
    });
    return replicated_mean(all);
  };
  auto const expected = run({.seed = 3}, false, 1);
  for (auto const how : {pith::gather::padded, pith::gather::exact}) {
    for (std::size_t const bytes : {0u, 5000u}) {
      for (int const patience : {1, 3, 1'000'000})
        CHECK(same_bytes(run({.seed = 3, .gather_mode = how, .bucket_bytes = bytes}, true, patience), expected));
    }
  }
  CHECK_NOTHROW(run({.gather_mode = pith::gather::predicted, .verification = pith::verify::each_step}, true, 1));
}

TEST_CASE("the residual between nodes is rescaled with the loss scale") {
  auto const codec = hierarchical(identity(), pith::error_feedback(pith::top_k(0.1)), 2);
  auto t = trial<float, std::remove_const_t<decltype(codec)>>(codec, {64}, {});
  auto& local = t.state().local();
  policy_state(std::get<1>(local.each).state).residual.data()[3] = 8;
  codec.rescale(pith::seq, 0.25, t.state().replicated(), local);
  CHECK(outer_residual(local)[3] == 2);
}

TEST_CASE("a step can be saved and gone on from") {
  auto const codec = hierarchical(pith::qsgd<8>(), pith::error_feedback(pith::top_k(0.1)), 2);
  pith::run_ranks(4, [&](pith::thread_communicator comm) {
    auto one = pith::make_exchange<float>(pith::seq, comm, model, mixed(codec)),
         two = pith::make_exchange<float>(pith::seq, comm, model, mixed(codec));
    auto g = sixteenths(one.size(), comm.rank());
    one.all_reduce_mean(g);
    two.import_state(one.export_state());
    auto a = sixteenths(one.size(), comm.rank(), 1), b = a;
    one.all_reduce_mean(a);
    two.all_reduce_mean(b);
    CHECK(same_bytes(a, b));
  });
}

TEST_CASE("invalid inner codecs, outer codecs, node sizes and numbers of ranks are refused") {
  auto const make = [](auto const& codec) { pith::make_state<float>(pith::seq, codec, {100}); };
  auto const fed = pith::error_feedback(pith::scaled_sign());
  CHECK_THROWS_WITH_AS(
      make(hierarchical(fed, identity(), 2)),
      "pith::hierarchical: codec must have no state, got ef(scaled_sign): for gradients, put feedback around the "
      "exchange, ef(hierarchical(c, ...))",
      std::invalid_argument);
  CHECK_THROWS_WITH_AS(make(hierarchical(identity(), pith::ok_top_k(0.1), 2)),
                       "pith::hierarchical: the outer codec must have no replicated state, got ok_top_k(0.1)",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(make(hierarchical(identity(), pith::ef(pith::reduce_scatter(pith::scaled_sign())), 2)),
                       "pith::hierarchical: the outer codec must return the whole mean, got "
                       "ef(reduce_scatter(scaled_sign))",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(hierarchical(identity(), identity(), 0),
                       "pith::hierarchical: ranks_per_node must be at least 1, got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(group_of(hierarchical(identity(), identity(), 2), 10, 3).all_reduce(all_sixteenths(10, 3)),
                       "pith::hierarchical: the number of ranks must be a multiple of ranks_per_node, 2, got 3",
                       std::invalid_argument);
}

TEST_CASE("a number of ranks that nodes do not divide is an error on all when an exchange is built") {
  auto const codec = hierarchical(identity(), identity(), 2);
  CHECK_THROWS_WITH_AS(pith::run_ranks(3,
                                       [&](pith::thread_communicator comm) {
                                         pith::make_exchange<float>(pith::seq, comm, {{"w", {100}}}, codec);
                                       }),
                       "pith::hierarchical: the number of ranks must be a multiple of ranks_per_node, 2, got 3",
                       std::invalid_argument);
}

TEST_CASE("ranks with different ranks_per_node are refused when their exchange is built") {
  CHECK_THROWS_WITH_AS(
      pith::run_ranks(4,
                      [&](pith::thread_communicator comm) {
                        auto const codec = hierarchical(identity(), identity(), comm.rank() == 3 ? 4 : 2);
                        pith::make_exchange<float>(pith::seq, comm, {{"w", {100}}}, codec);
                      }),
      "pith::gradient_exchange: rank 3 differs from rank 0 in tensor 0: \"w\" of 100 elements, codec "
      "hierarchical(identity,identity,4), not \"w\" of 100 elements, codec hierarchical(identity,identity,2)",
      pith::agreement_error);
}

TEST_CASE("all_reduce_mean wants the groups, which a communicator must split into, before anything is kept") {
  auto const codec = hierarchical(identity(), identity(), 1);
  auto state = pith::make_state<float>(pith::seq, codec, {8});
  auto memory = std::vector<std::byte>(pith::workspace_bytes<float>(pith::seq, codec, {8}, 2));
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto x = std::vector<float>(8);
  auto self = pith::self_communicator();
  CHECK_THROWS_WITH_AS(
      pith::all_reduce_mean(pith::seq, self, codec, pith::span<float>(x), state, ws),
      "pith::all_reduce_mean: hierarchical(identity,identity,1) exchanges within groups of ranks: pass "
      "make_sub_communicators<In>(comm, codec, dims) as the communicator",
      std::invalid_argument);
  auto comms = pith::make_sub_communicators<float>(self, codec, {8});
  CHECK_NOTHROW(pith::all_reduce_mean(pith::seq, comms, codec, pith::span<float>(x), state, ws));
  auto echo = splitless_communicator();
  CHECK_THROWS_WITH_AS(pith::make_exchange<float>(pith::seq, echo, {{"w", {8}}}, codec),
                       "pith::gradient_exchange: hierarchical(identity,identity,1) needs a communicator with "
                       "split(unsigned) that returns its own type",
                       std::invalid_argument);
}
