// benchmarks/network/regret.hpp — the time of a planned step over that of the best choice.
#pragma once

#include "predicted.hpp"

#include <range/v3/algorithm/min.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/remove_if.hpp>
#include <range/v3/view/transform.hpp>
#include <range/v3/view/unique.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace network {

/// One workload at one rate for a user of one codec: dense float and bfloat16 first, then each exchange of the codec.
struct decision {
  std::string family;
  std::vector<row> ways;
  std::size_t planned;

  static constexpr std::size_t dense = 2;

  double best() const { return ranges::min(ways | ranges::views::transform(&row::step)); }
  double plan() const { return ways[planned].step; }
  /// By dense float; by the codec's first exchange.
  double never() const { return ways[0].step; }
  double always() const { return ways[dense].step; }
};

inline bool same_place(row const& a, row const& b) { return a.rate == b.rate && a.workload == b.workload; }

/// The choices of a user of a family, measured at `place`.
inline std::vector<row> ways_of(std::vector<row> const& rows, row const& place, std::string const& family) {
  auto ways = std::vector<row>();
  for (auto const& wanted : {std::string("float"), std::string("bfloat16"), family}) {
    for (auto const& r : rows) {
      if (same_place(r, place) && r.family == wanted) ways.push_back(r);
    }
  }
  return ways;
}

inline decision decide(oracle const& model, std::string const& family, std::vector<row> ways) {
  auto const candidate_of = [&](row const& r) { return model.candidate(r); };
  auto const candidates = ways | ranges::views::transform(candidate_of) | ranges::to<std::vector>();
  auto const choice = pith::plan_exchange(model.at(ways[0].rate), candidates);
  return {family, std::move(ways), choice.candidate};
}

inline std::vector<std::string> families() {
  auto const family_of = [](method const& m) { return std::string(m.family); };
  return methods | ranges::views::transform(family_of) | ranges::views::remove_if(is_dense) | ranges::views::unique |
         ranges::to<std::vector>();
}

/// One decision for each family, workload and rate.
inline std::vector<decision> decisions(oracle const& model, std::vector<row> const& rows) {
  auto all = std::vector<decision>();
  for (auto const& family : families()) {
    for (auto const& place : rows) {
      if (place.family == "float") all.push_back(decide(model, family, ways_of(rows, place, family)));
    }
  }
  return all;
}

}  // namespace network
