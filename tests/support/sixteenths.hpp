// tests/support/sixteenths.hpp — gradients of whole sixteenths: their sums over a few ranks are exact.
#pragma once

#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exec/seq.hpp>
#include <pith/feedback/ef21.hpp>
#include <pith/feedback/error_feedback.hpp>

#include <doctest/doctest.h>

#include "support/group.hpp"
#include "support/vectors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace support {

/// The gradient of a rank in a step. The first eighth is larger, on all ranks, so that parts of a tensor differ.
inline std::vector<float> sixteenths(std::size_t n, unsigned rank, int step = 0) {
  auto g = std::vector<float>(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const v = static_cast<int>((i * 37 + rank * 11 + static_cast<unsigned>(step) * 5) % 65) - 32;
    g[i] = static_cast<float>(i < n / 8 ? 8 * v : v) / 16;
  }
  return g;
}
inline std::vector<std::vector<float>> all_sixteenths(std::size_t n, unsigned ranks, int step = 0) {
  auto all = std::vector<std::vector<float>>();
  for (unsigned r = 0; r < ranks; ++r) all.push_back(sixteenths(n, r, step));
  return all;
}
/// A mean in sixteenths, times the ranks.
inline double counted(float mean, unsigned ranks) { return std::round(static_cast<double>(mean) * ranks * 16); }

/// The received mean; checks that all ranks have the same bits.
template <class In>
std::vector<In> replicated_mean(std::vector<std::vector<In>> const& received) {
  for (auto const& x : received) CHECK(same_bytes(x, received[0]));
  return received[0];
}

/// A codec that sends everything returns the sum of all gradients.
template <class C>
void check_adds_up(C const& codec, unsigned ranks, std::size_t n) {
  auto g = group<float, C>(codec, {n}, ranks);
  auto const given = all_sixteenths(n, ranks);
  auto const received = replicated_mean(g.all_reduce(given));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (auto const& x : given) sum += static_cast<double>(x[i]);
    wrong += counted(received[i], ranks) != sum * 16;
  }
  CHECK(wrong == 0);
}

/// With feedback the received means, times the ranks, plus all residuals equal the sum of all gradients exactly.
template <class C>
void check_conserves(C const& codec, unsigned ranks, std::size_t n, int steps = 25) {
  auto const fed = pith::error_feedback(codec);
  auto g = group<float, std::remove_const_t<decltype(fed)>>(fed, {n}, ranks);
  auto missing = std::vector<double>(n);
  for (int step = 0; step < steps; ++step) {
    auto const given = all_sixteenths(n, ranks, step);
    auto const received = replicated_mean(g.all_reduce(given));
    for (std::size_t i = 0; i < n; ++i) {
      missing[i] -= counted(received[i], ranks);
      for (auto const& x : given) missing[i] += static_cast<double>(x[i]) * 16;
    }
  }
  for (unsigned r = 0; r < ranks; ++r) {
    auto const rest = kept(policy_state(g.local(r)).residual);
    for (std::size_t i = 0; i < n; ++i) missing[i] -= rest[i] * 16;
  }
  CHECK(std::count_if(missing.begin(), missing.end(), [](double v) { return v != 0; }) == 0);
}

/// EF21 updates with a rank's own decoded payload: the mean of the ranks' estimates is the received mean. Division by
/// four ranks is exact.
template <class C>
void check_estimates(C const& codec, std::size_t n) {
  auto const fed = pith::error_feedback(codec, pith::ef21());
  auto g = group<float, std::remove_const_t<decltype(fed)>>(fed, {n}, 4);
  auto received = std::vector<float>();
  for (int step = 0; step < 8; ++step) received = replicated_mean(g.all_reduce(all_sixteenths(n, 4, step)));
  auto mean = std::vector<double>(n);
  for (unsigned r = 0; r < 4; ++r) {
    auto const estimate = kept(policy_state(g.local(r)).estimate);
    for (std::size_t i = 0; i < n; ++i) mean[i] += estimate[i] / 4;
  }
  CHECK(widen(received) == mean);
}

/// With feedback NaN and infinity reach all ranks, and residuals stay finite.
template <class C>
void check_spreads_what_is_no_number(C const& codec, unsigned ranks) {
  auto const fed = pith::error_feedback(codec);
  auto g = group<float, std::remove_const_t<decltype(fed)>>(fed, {100}, ranks);
  auto x = all_sixteenths(100, ranks);
  x[1][70] = static_cast<float>(not_a_number);
  x[ranks - 1][71] = static_cast<float>(infinity);
  auto const received = replicated_mean(g.all_reduce(x));
  CHECK(std::isnan(received[70]));
  CHECK(std::isinf(received[71]));
  for (unsigned r = 0; r < ranks; ++r) {
    for (auto const v : kept(policy_state(g.local(r)).residual)) CHECK(std::isfinite(v));
  }
}

/// The tensors of a model receive the same means together as each alone, step by step.
template <class C>
void check_travels_together(C const& codec, unsigned ranks) {
  auto const tensors = std::vector<pith::tensor_spec>{{"a", {1000}}, {"b", {0}}, {"c", {37}}, {"d", {4099}}};
  pith::run_ranks(ranks, [&](pith::thread_communicator comm) {
    auto together = pith::make_exchange<float>(pith::seq, comm, tensors,
                                               [&](pith::tensor_spec const&) { return codec; }, {.seed = 7});
    auto alone = std::vector<trial<float, C>>();
    for (std::uint32_t t = 0; t < tensors.size(); ++t)
      alone.emplace_back(codec, tensors[t].dims, pith::tensor_id{7, t, static_cast<std::uint16_t>(comm.rank())});
    for (int step = 0; step < 4; ++step) {
      auto x = sixteenths(together.size(), comm.rank(), step);
      auto parts = std::vector<std::vector<float>>();
      auto const* at = x.data();
      for (auto const& t : tensors) parts.emplace_back(at, at + t.dims.n), at += t.dims.n;
      together.all_reduce_mean(pith::span<float>(x));
      auto one = std::vector<float>();
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        auto const own = alone[t].all_reduce(parts[t], comm);
        one.insert(one.end(), own.begin(), own.end());
      }
      CHECK(same_bytes(x, one));
    }
  });
}

}  // namespace support
