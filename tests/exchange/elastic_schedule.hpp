// tests/exchange/elastic_schedule.hpp — random steps, losses and numbers of ranks, and what must be conserved through them.
#pragma once

#include <pith/collective/sharding.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/parsed.hpp"
#include "support/saved_fields.hpp"

namespace elastic {

using job = std::vector<support::state_bytes>;
using numbers = std::vector<double>;

/// A codec, and what its fields mean, by their numbers in a state; field 0 counts steps.
struct codec_case {
  char const* codec;
  std::vector<std::size_t> waiting;  ///< the sum of their means is the residual
  std::size_t momentum = 0;          ///< added to the residual in each step; 0: no momentum
  double gain = 1;                   ///< the factor of gradients and received means in the residual
  std::size_t average = 0;           ///< a running mean of gradients, times its decay; 0: none
  double decay = 0;
  std::size_t mean = 0, estimate = 0;  ///< the one is the mean of the other; 0: none
  unsigned places = 1;                 ///< ranks come in multiples of it
  int digits = 24;                     ///< of the elements of the fields
  std::optional<pith::sharding> rule = {};  ///< the rule by which a rank receives its shard alone
};

/// Every feedback policy, and every way in which a state is a rank's own.
inline std::vector<codec_case> const codec_cases = {
    {"ef(top_k(0.2))", {1}},
    {"ef(random_k(0.3))", {1}},
    {.codec = "ef(top_k(0.2),residual<bfloat16>)", .waiting = {1}, .digits = 8},
    {"bypass(ef(top_k(0.3)),16)", {1}},
    {"ef(scaled_sign(8),own_residual)", {1}},
    {"ef(scaled_sign(8),loco(0.5,0))", {1}},
    {"ef(scaled_sign(8),mean_residual)", {1}},
    {"ef(power_sgd(1))", {3}},
    {"ef(power_sgd(1,2,bfloat16))", {3}},
    {"ef(ok_top_k(0.3))", {2}},
    {"ef(g_top_k(0.3))", {1}},
    {"ef(sidco(0.2))", {2}},
    {.codec = "ef(scaled_sign(8),ef_sign(0.5))", .waiting = {1}, .gain = 0.5},
    {.codec = "ef(top_k(0.2),momentum_correction(0.9))", .waiting = {2}, .momentum = 1},
    {.codec = "ef(scaled_sign(8),momentum_correction(0.9,unmasked))", .waiting = {2}, .momentum = 1},
    {.codec = "ef(top_k(0.2),ef21)", .waiting = {}, .mean = 1, .estimate = 2},
    {.codec = "ef(top_k(0.2),ef21(0.1))", .waiting = {}, .average = 3, .decay = 0.9, .mean = 1, .estimate = 2},
    {"ef(top_k(0.2),two_sided(scaled_sign(8)))", {1, 2}},
    {.codec = "ef(sign,signum_momentum(0.9),unverified)", .waiting = {}, .average = 1, .decay = 0.9},
    {.codec = "ef(top_k(0.2),no_feedback)", .waiting = {}},
    {"ef(two_shot(scaled_sign(8),ef(scaled_sign(8))))", {1, 2}},
    {.codec = "ef(reduce_scatter(top_k(0.3)))", .waiting = {1}, .rule = pith::sharding::equal()},
    {.codec = "ef(reduce_scatter(scaled_sign(8),rows))", .waiting = {1}, .rule = pith::sharding::rows()},
    {.codec = "hierarchical(identity,ef(top_k(0.3)),2)", .waiting = {1}, .places = 2},
    {.codec = "hierarchical(identity,two_shot(identity,ef(scaled_sign(8))),2)", .waiting = {1}, .places = 2}};

/// A job whose ranks come and go. Expectations are sums in double of what each step was given and returned.
class schedule {
 public:
  schedule(codec_case const& what, unsigned seed) : what_(what), random_(seed) {
    n_ = pick({0, 1, 5, 35});
    for (auto* const of : {&waiting_, &average_}) of->assign(n_, 0);
    ranks_ = any_ranks();
  }

  void run() {
    step();
    for (auto events = 2 + below(4); events > 0; --events) {
      change();
      for (auto steps = below(3); steps > 0; --steps) step();
    }
    check();
  }

 private:
  pith::shape dims() const { return {n_, n_ == 35 ? 5u : 1u}; }
  std::size_t below(std::size_t n) { return random_() % n; }
  std::size_t pick(std::vector<std::size_t> const& from) { return from[below(from.size())]; }
  unsigned any_ranks() { return what_.places * (1 + static_cast<unsigned>(below(8 / what_.places))); }

  /// All ranks begin again with what they saved, and take one step.
  void step() {
    auto const before = states_;
    states_.resize(ranks_);
    auto mean = numbers(n_);
    auto gradients = std::vector<std::vector<float>>(ranks_, std::vector<float>(n_));
    for (auto& g : gradients)
      for (std::size_t i = 0; i < n_; ++i)
        mean[i] += (g[i] = static_cast<float>(below(101)) - 50) / static_cast<double>(ranks_);
    pith::run_ranks(ranks_, [&](pith::thread_communicator comm) {
      auto const codec = pith::parse<float>(what_.codec);
      auto exchange = pith::make_exchange<float>(pith::seq, comm, {{"w", dims()}}, codec);
      if (!before.empty()) exchange.import_state(before[comm.rank()]);
      exchange.all_reduce_mean(gradients[comm.rank()]);
      states_[comm.rank()] = exchange.export_state();
    });
    expect(mean, received(gradients), before);
    rounded_ += 2 * (ranks_ + 1) + 8;
  }

  /// The mean that the ranks received, as one tensor.
  std::vector<float> received(std::vector<std::vector<float>> const& of_ranks) const {
    auto whole = of_ranks[0];
    for (unsigned r = 1; r < ranks_ && what_.rule; ++r)
      for (auto i = what_.rule->first(dims(), ranks_, r); i < what_.rule->first(dims(), ranks_, r + 1); ++i)
        whole[i] = of_ranks[r][i];
    return whole;
  }
  void expect(numbers const& gradient, std::vector<float> const& received, job const& before) {
    auto const momentum = what_.momentum > 0 && !before.empty() ? mean_of(before, what_.momentum) : numbers(n_);
    for (std::size_t i = 0; i < n_; ++i) {
      waiting_[i] += what_.gain * (gradient[i] - received[i]) + momentum[i];
      average_[i] = what_.decay * (average_[i] + (1 - what_.decay) * gradient[i]);
      most_ = std::max(most_, std::abs(static_cast<double>(received[i])));
    }
    for (auto const& state : states_)
      for (auto const& field : support::read_state(state).fields)
        for (auto const x : field.values) most_ = is_number(field) ? std::max(most_, std::abs(x)) : most_;
  }

  /// Ranks come or go, or all stay; of those that are lost nothing is known.
  void change() {
    if (below(3) == 0) lose();
    ranks_ = below(4) == 0 && states_.size() % what_.places == 0 ? static_cast<unsigned>(states_.size()) : any_ranks();
    states_ = pith::reshard(states_, ranks_);
    rounded_ += 2;
    check();
  }
  void lose() {
    auto left = states_;
    for (auto losses = below(left.size()); losses > 0; --losses) left.erase(left.begin() + pick_rank(left));
    if (!has_all_places(left)) return;
    states_ = left;
    waiting_ = waiting_in(states_);
    if (what_.average > 0) average_ = mean_of(states_, what_.average);
  }
  std::ptrdiff_t pick_rank(job const& states) { return static_cast<std::ptrdiff_t>(below(states.size())); }
  bool has_all_places(job const& states) const {
    auto places = std::vector<bool>(what_.places);
    for (auto const& state : states) places[support::read_state(state).rank % what_.places] = true;
    return std::count(places.begin(), places.end(), false) == 0;
  }

  /// A field as one tensor: the mean of what ranks have of an element; a part, or a place, follows the one before.
  numbers mean_of(job const& states, std::size_t number) const {
    auto sums = numbers(n_), counts = numbers(n_);
    for (auto const& state : states) {
      auto const read = support::read_state(state);
      auto const& field = read.fields[number];
      auto const place = read.rank % field.places * field.count;
      auto const units = read.ranks / field.places, unit = read.rank / field.places;
      auto const size = field.kind != "part" ? field.count : (field.count + units * 8 - 1) / (units * 8) * 8;
      auto const first = field.kind != "part" ? 0 : unit * size;
      for (std::size_t i = 0; i < size && first + i < field.count && place + first + i < n_; ++i) {
        sums[place + first + i] += field.values[i];
        counts[place + first + i] += 1;
      }
    }
    for (std::size_t i = 0; i < n_; ++i) sums[i] /= std::max(1.0, counts[i]);
    return sums;
  }
  numbers waiting_in(job const& states) const {
    auto sum = numbers(n_);
    for (auto const number : what_.waiting) {
      auto const of_field = mean_of(states, number);
      for (std::size_t i = 0; i < n_; ++i) sum[i] += of_field[i];
    }
    return sum;
  }

  void check() const {
    check_equal(waiting_in(states_), what_.waiting.empty() ? numbers(n_) : waiting_);
    if (what_.average > 0) check_equal(mean_of(states_, what_.average), average_);
    if (what_.mean > 0) check_equal(mean_of(states_, what_.mean), mean_of(states_, what_.estimate));
  }
  static bool is_number(support::saved_field const& field) {
    return field.element == "float" || field.element == "bfloat16";
  }
  /// Up to the roundings so far: of numbers that are sums of three at most, each as large as any that was seen.
  void check_equal(numbers const& got, numbers const& expected) const {
    CAPTURE(what_.codec);
    auto const bound = std::ldexp(rounded_ * 3 * most_, -what_.digits);
    for (std::size_t i = 0; i < n_; ++i) REQUIRE(std::abs(got[i] - expected[i]) <= bound);
  }

  codec_case const& what_;
  std::mt19937 random_;
  std::size_t n_ = 0;
  unsigned ranks_ = 1;
  job states_;
  numbers waiting_, average_;
  double most_ = 50, rounded_ = 0;
};

}  // namespace elastic
