// examples/09_sharded.cpp — ZeRO: each rank has the optimizer's state of one shard, and all have the weights.
//
//   step   0: |w - w*| = 165.85
//   step 100: |w - w*| = 0.63
//   step 200: |w - w*| = 0.46
//   rank 0 updates 2560 of 10000 weights, and sends 23280 bytes per step
//
// Each rank receives the gradients of its shard in 8 bits and sends its weights in 16 bits to all ranks. The shard
// itself is stored in 32 bits.
#include <pith/comm/threads.hpp>
#include <pith/exchange/all_gather.hpp>
#include <pith/exchange/reduce_scatter_mean.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/cast.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t n = 10'000;

/// Rank r wants w_i = sin(i) + r, so all together want the mean over r.
float target(std::size_t i, float r) { return std::sin(static_cast<float>(i)) + r; }

double distance(std::vector<float> const& w, float r) {
  double squares = 0;
  for (std::size_t i = 0; i < w.size(); ++i) squares += std::pow(w[i] - target(i, r), 2);
  return std::sqrt(squares);
}

void train(pith::thread_communicator comm) {
  auto const of_gradients = pith::qsgd<8>();
  auto const of_weights = pith::cast<pith::half>();
  auto const parts = pith::parts_for(n, comm.size(), of_gradients, of_weights);
  auto const shard = parts.dims(comm.rank());
  auto const owner = pith::tensor_id{.rank = static_cast<std::uint16_t>(comm.rank())};
  auto scattering = pith::make_state<float>(pith::seq, of_gradients, {n}, owner);
  auto gathering = pith::make_state<float>(pith::seq, of_weights, shard, owner);
  auto memory = std::vector<std::byte>(
      std::max(pith::reduce_scatter_mean_workspace_bytes<float>(pith::seq, of_gradients, parts, comm.size()),
               pith::all_gather_workspace_bytes<float>(pith::seq, of_weights, parts, comm.size())));

  auto w = std::vector<float>(n), gradient = w;                        // whole, on every rank
  auto own = std::vector<float>(shard.n), mean = own, momentum = own;  // of the shard, on this rank alone
  for (int step = 0; step <= 200; ++step) {
    if (comm.rank() == 0 && step % 100 == 0) std::printf("step %3d: |w - w*| = %.2f\n", step, distance(w, 1.5f));
    auto ws = pith::workspace(memory);
    for (std::size_t i = 0; i < n; ++i) gradient[i] = w[i] - target(i, static_cast<float>(comm.rank()));
    pith::reduce_scatter_mean<float>(pith::seq, comm, of_gradients, parts, gradient, mean, scattering, ws);
    for (std::size_t i = 0; i < shard.n; ++i) {
      momentum[i] = 0.9f * momentum[i] + mean[i];
      own[i] -= 0.01f * momentum[i];
    }
    pith::all_gather<float>(pith::seq, comm, of_weights, parts, own, w, gathering, ws);
  }
  if (comm.rank() != 0) return;
  auto const sent =
      3 * (pith::payload_bytes<float>(of_gradients, shard) + pith::payload_bytes<float>(of_weights, shard));
  std::printf("rank 0 updates %zu of %zu weights, and sends %zu bytes per step\n", own.size(), n, sent);
}

}  // namespace

int main() { pith::run_ranks(4, train); }
