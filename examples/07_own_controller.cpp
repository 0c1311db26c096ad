// examples/07_own_controller.cpp — a user-defined controller: the fewest values with half of the gradient's energy.
//
//   step   1: density 1.0000,     0 bytes gathered and 40000 summed
//   step 100: density 0.1250,  5784 bytes gathered and     0 summed
//   step 200: density 0.1250,  5784 bytes gathered and     0 summed
//   step 300: density 0.1250,  5784 bytes gathered and     0 summed
//
// After each step all ranks have the same report of the kept energy, and so choose the same density for the next step.
#include <pith/adaptor/rated.hpp>
#include <pith/comm/threads.hpp>
#include <pith/control/adaptive_exchange.hpp>
#include <pith/pith.hpp>

#include "own/keep_half.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

namespace {

/// The target of rank r is w_i = c_i + r. Few c_i are large.
float target(std::size_t i, unsigned rank) {
  return 100 * std::pow(std::sin(static_cast<float>(i)), 31.0f) + static_cast<float>(rank);
}

void train(pith::thread_communicator comm) {
  auto const codec = pith::error_feedback(pith::rated(pith::top_k(0.1)));
  auto exchange =
      pith::make_adaptive_exchange<float>(pith::seq, comm, {{"weight", pith::matrix(100, 100)}}, codec, keep_half());
  auto w = std::vector<float>(exchange.size()), gradient = w;
  for (int step = 1; step <= 300; ++step) {
    for (std::size_t i = 0; i < w.size(); ++i) gradient[i] = w[i] - target(i, comm.rank());
    exchange.all_reduce_mean(gradient);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.02f * gradient[i];
    if (comm.rank() != 0 || (step != 1 && step % 100 != 0)) continue;
    auto const density = exchange.controller().decide(exchange.steps(), 0);
    std::printf("step %3d: density %.4f, %5zu bytes gathered and %5zu summed\n", step, density,
                exchange.exchange().traffic().gathered, exchange.exchange().traffic().summed);
  }
}

}  // namespace

int main() { pith::run_ranks(4, train); }
