// tests/comm/hierarchical_test.cpp — parts added up inside of nodes and exchanged between them.
#include <pith/comm/g_top_k.hpp>
#include <pith/comm/hierarchical.hpp>
#include <pith/comm/ok_top_k.hpp>
#include <pith/comm/ring.hpp>
#include <pith/comm/two_shot.hpp>
#include <pith/core/identity.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include "support/exchanged.hpp"
#include "support/group.hpp"
#include "support/sixteenths.hpp"
#include "support/thread_team.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace support;
using pith::hierarchical, pith::identity;

namespace {

constexpr std::size_t sizes[] = {0, 1, 7, 8, 9, 100, 1000, 4099};

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
double worst(std::vector<double> const& a, std::vector<double> const& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// What Outer keeps on a rank, fed back: its policy's residual of the rank's part.
auto& residual_of_outer(auto& local) { return policy_state(std::get<1>(local.each)).residual; }

}  // namespace

TEST_CASE("groups: rows and columns of ranks, and columns of columns") {
  for (unsigned rank = 0; rank < 8; ++rank) {
    CHECK(pith::rank_group{2, 1}.color(rank) == rank / 2);
    CHECK(pith::rank_group{4, 2}.color(rank) == rank % 2);
    CHECK(pith::rank_group{2, 2}.color(rank) == rank / 4 * 2 + rank % 2);
    CHECK(pith::rank_group().color(rank) == 0);
  }
  auto const over = pith::detail::node_grid{4, 3};
  CHECK(over.inside() == pith::rank_group{3, 1});
  CHECK(over.across({}) == pith::rank_group{4, 3});
  CHECK(over.across({2, 2}) == pith::rank_group{2, 6});
}

TEST_CASE("what loses nothing gives the mean") {
  for (auto const& c : clusters) {
    for (auto const n : sizes) {
      auto const x = all_sixteenths(n, c.ranks);
      auto g = group_of(hierarchical(identity(), identity(), c.per_node), n, c.ranks);
      // Of 3 ranks means are rounded: inside, between, and by the share.
      auto const slack = c.ranks % 3 == 0 ? 16 * 4 * std::ldexp(1, -24) : 0;
      CHECK(worst(widen(agreed_mean(g.all_reduce(x))), true_mean(x)) <= slack);
    }
  }
}
