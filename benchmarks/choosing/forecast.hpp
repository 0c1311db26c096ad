// benchmarks/choosing/forecast.hpp — the time of a step as a function of the link rate, and crossings of two.
#pragma once

#include "../network/predicted.hpp"

#include <pith/plan/cost_model.hpp>

#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace choosing {

/// Methods as in network_bench, and the codec with the time per element: the same stage where it was timed.
struct method {
  char const *family, *exchange, *codec, *timed;
};

inline constexpr auto timed_signs = "ef(scaled_sign,ef_sign(0.02))";
inline constexpr method methods[] = {
    {"float", "sum", "identity", "identity"},
    {"bfloat16", "sum", "cast<bfloat16>", "cast<bfloat16>"},
    {"qsgd<8>", "all-gather", "qsgd<8>", "qsgd<8>"},
    {"qsgd<8>", "two_shot", "two_shot(qsgd<8>)", "qsgd<8>"},
    {"qsgd<8>", "ring", "ring(qsgd<8>)", "qsgd<8>"},
    {"qsgd<4>", "all-gather", "qsgd<4>", "qsgd<8>"},
    {"qsgd<4>", "two_shot", "two_shot(qsgd<4>)", "qsgd<8>"},
    {"scaled_sign", "all-gather", "ef(scaled_sign)", timed_signs},
    {"scaled_sign", "two_shot", "ef(two_shot(scaled_sign,ef(scaled_sign)))", timed_signs},
    {"top_k", "all-gather", "ef(top_k(0.01))", "ef(top_k(0.01))"},
    {"top_k", "two_shot", "ef(two_shot(top_k(0.01),ef(top_k(0.01))))", "ef(top_k(0.01))"},
    {"random_k", "sum", "ef(random_k(0.01))", "ef(random_k(0.01))"},
    {"power_sgd", "sum", "ef(power_sgd(1))", "ef(power_sgd(1))"}};

inline pith::exchange_work work(std::string const& model, std::string const& codec, unsigned ranks) {
  return pith::work_of<float>(pith::seq, network::workload(model), network::policy_of(codec), ranks);
}

/// The time of a codec per element in a table of `grace throughput`: ResNet-50's gradients, one thread, with calls.
inline pith::codec_cost cost_of(std::string const& table, std::string const& codec) {
  auto file = std::ifstream(table);
  for (std::string line; std::getline(file, line);) {
    auto const f = network::fields(line);
    if (f.size() < 8 || f[2] != codec) continue;
    auto const of = work("ResNet-50", codec, static_cast<unsigned>(std::stoul(f[3])));
    return {{0, std::stod(f[5]) / 1e3 / of.encoded}, {0, std::stod(f[6]) / 1e3 / of.decoded}};
  }
  throw std::runtime_error("no " + codec + " in " + table);
}

/// A step over links of `rate` Mbit/s takes fixed + megabits / rate seconds.
struct step {
  double fixed, megabits;

  double at(double rate) const { return fixed + megabits / rate; }
};

/// On links of 1 Mbit/s; nothing overlaps.
inline step foretell(pith::network links, pith::exchange_candidate const& candidate) {
  auto const at_one = pith::step_seconds(links, candidate);
  links.message.each = 0;
  auto const fixed = pith::step_seconds(links, candidate);
  return {fixed, at_one - fixed};
}

/// The rate below which a step is faster than another: 0 if it sends no less, infinity if its codec is no slower.
inline double break_even(step const& s, step const& other) {
  auto const saved = other.megabits - s.megabits, longer = s.fixed - other.fixed;
  if (saved <= 0) return 0;
  return longer <= 0 ? std::numeric_limits<double>::infinity() : saved / longer;
}

}  // namespace choosing
