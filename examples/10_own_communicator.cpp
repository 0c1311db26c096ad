// examples/10_own_communicator.cpp — a user-defined communicator, the smallest for a gradient_exchange.
//
//   the mean of three compressed gradients: 0 0 0 0 0 0 12 14 16 18
//
// The ranks are threads that read each other's memory between two barriers.
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include "own/barrier_communicator.hpp"

#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

// two_shot needs all_to_all as well, and ring send_recv: comm/communicator.hpp has a concept for each call.
void exchange(barrier_communicator comm) {
  auto const codec = pith::error_feedback(pith::top_k(0.25));
  auto exchange = pith::make_exchange<float>(
      pith::seq, comm, {{"weight", pith::matrix(2, 4)}, {"bias", pith::vector(2)}}, pith::matrices(codec));
  auto gradient = std::vector<float>(exchange.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i * (comm.rank() + 1));
  exchange.all_reduce_mean(gradient);
  if (comm.rank() != 0) return;
  std::printf("the mean of three compressed gradients:");
  for (auto const x : gradient) std::printf(" %g", x);
  std::printf("\n");
}

}  // namespace

int main() {
  auto place = meeting_place(3);
  auto threads = std::vector<std::jthread>();
  for (unsigned rank = 0; rank < 3; ++rank) threads.emplace_back([&place, rank] { exchange({place, rank}); });
}
