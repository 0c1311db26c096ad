// examples/09_sharded.cpp — ZeRO: each rank has the optimizer's state of its shards, and all ranks have the weights.
//
//   mpirun -n 4 ./09_sharded
//   step   0: |w - w*| = 163.3
//   step 100: |w - w*| = 1.0
//   step 200: |w - w*| = 0.3
//   rank 0 updates 2424 of 9696 weights, and sends 14952 bytes per step
//
// Gradients are sent in 8 bits with error feedback, and weights as 8-bit differences. The ranks clip the mean gradient to
// a norm, and each updates the exact weights of its shards by AdamW.
#include <mpi.h>

#include <pith/adaptor/bypass.hpp>
#include <pith/collective/reduce_scatter.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/exchange/sharded_exchange.hpp>
#include <pith/pith.hpp>
#include <pith/quantize/block_int.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

std::vector<pith::tensor_spec> const tensors = {{"weight", pith::matrix(100, 96)}, {"bias", {96}}};

/// Rank r wants w_i = sin(i) + r, so all together want the mean over r.
double target(std::size_t i, double r) { return std::sin(static_cast<double>(i)) + r; }

double distance(std::vector<float> const& w, double r) {
  double squares = 0;
  for (std::size_t i = 0; i < w.size(); ++i) squares += std::pow(w[i] - target(i, r), 2);
  return std::sqrt(squares);
}

/// A weight that this rank updates: its index, its exact value, and its moments.
struct owned {
  std::size_t at;
  float w, m = 0, v = 0;
};

template <class Exchange>
std::vector<owned> owned_weights(Exchange const& exchange, std::vector<float> const& w) {
  auto own = std::vector<owned>();
  std::size_t first = 0;
  for (std::size_t t = 0; t < tensors.size(); first += tensors[t++].dims.n) {
    auto const shard = exchange.shard(t);
    for (std::size_t i = 0; i < shard.n; ++i) own.push_back({first + shard.first + i, w[first + shard.first + i]});
  }
  return own;
}

/// Returns the factor that reduces the norm of the mean gradient to at most `most`.
float clip_factor(std::vector<owned> const& own, std::vector<float> const& mean, double most) {
  double squares = 0;
  for (auto const& o : own) squares += std::pow(mean[o.at], 2);
  MPI_Allreduce(MPI_IN_PLACE, &squares, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return static_cast<float>(std::min(1.0, most / std::sqrt(squares)));
}

void update(owned& o, float g, int step) {
  constexpr float rate = 0.05f, decay = 1e-4f, beta1 = 0.9f, beta2 = 0.999f;
  auto const t = static_cast<float>(step + 1);
  o.m = beta1 * o.m + (1 - beta1) * g;
  o.v = beta2 * o.v + (1 - beta2) * g * g;
  auto const m = o.m / (1 - std::pow(beta1, t)), v = o.v / (1 - std::pow(beta2, t));
  o.w -= rate * (m / (std::sqrt(v) + 1e-8f) + decay * o.w);
}

void train() {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD);
  auto exchange = pith::make_sharded_exchange<float>(
      pith::seq, comm, tensors, pith::ef(pith::reduce_scatter(pith::qsgd<8>(), pith::sharding::rows())),
      pith::block_int<8>(), {.weights = pith::weight_form::difference, .check_interval = 100});
  auto w = std::vector<float>(exchange.gradients().size()), g = w;  // whole, on every rank
  auto own = owned_weights(exchange, w);                            // of the shards, on this rank alone
  for (int step = 0; step <= 200; ++step) {
    if (comm.rank() == 0 && step % 100 == 0) std::printf("step %3d: |w - w*| = %.1f\n", step, distance(w, 1.5));
    exchange.begin(g);
    for (auto t = tensors.size(); t-- > 0;) {  // the backward pass, last tensor first
      auto const first = t == 0 ? 0 : tensors[0].dims.n;
      for (auto i = first; i < first + tensors[t].dims.n; ++i) g[i] = static_cast<float>(w[i] - target(i, comm.rank()));
      exchange.ready(t);
    }
    exchange.wait();
    auto const factor = clip_factor(own, g, 50);
    for (auto& o : own) {
      update(o, factor * g[o.at], step);
      w[o.at] = o.w;
    }
    exchange.all_gather(w);
  }
  if (comm.rank() != 0) return;
  auto const sent = exchange.gradients().report().total.wire_bytes + exchange.weights().report().total.wire_bytes;
  std::printf("rank 0 updates %zu of %zu weights, and sends %.0f bytes per step\n", own.size(), w.size(), sent);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;  // gradient_exchange::ready starts a thread that calls MPI
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED) {
    std::fprintf(stderr, "MPI must provide MPI_THREAD_SERIALIZED\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  train();
  MPI_Finalize();
}
