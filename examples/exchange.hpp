// examples/exchange.hpp — gradient descent on any communicator, for 03_exchange and 04_exchange_mpi.
#pragma once

#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <cmath>
#include <cstdio>
#include <vector>

/// Rank r wants w_i = sin(i) + r, so all together want the mean over r. Ranks that want different things keep the
/// compressed descent at a distance that shrinks with the learning rate.
inline float target(std::size_t i, float r) { return std::sin(static_cast<float>(i)) + r; }

template <class Comm>
void train(Comm& comm) {
  auto const codec = pith::error_feedback(pith::top_k(0.1) | pith::qsgd<8>());
  auto exchange = pith::make_exchange<float>(
      pith::seq, comm, {{"weight", pith::matrix(100, 100)}, {"bias", pith::vector(100)}}, pith::matrices(codec));

  auto const rank = static_cast<float>(comm.rank());
  auto const mean = static_cast<float>(comm.size() - 1) / 2;
  auto w = std::vector<float>(exchange.size()), gradient = w;
  for (int step = 0; step <= 2000; ++step) {
    double squared = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      gradient[i] = w[i] - target(i, rank);
      squared += std::pow(w[i] - target(i, mean), 2);
    }
    if (comm.rank() == 0 && step % 1000 == 0) std::printf("step %4d  |w - w*| = %.2f\n", step, std::sqrt(squared));
    exchange.all_reduce_mean(gradient);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.005f * gradient[i];
  }
  if (comm.rank() != 0) return;
  auto const sent = exchange.traffic();
  std::printf("%zu bytes gathered and %zu summed per step, not %zu\n", sent.gathered, sent.summed, 4 * w.size());
}
