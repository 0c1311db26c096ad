// tests/runtime/cpp_engine.cpp — the training of examples/11_c_engine.c, with the headers in place of the C interface.
// The test compares the output with the comment of this example.
#include <pith/comm/mpi.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/exchange/reshard.hpp>
#include <pith/pith.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

constexpr int points = 240, units = 16, steps = 300;

/// The parameters or their gradients: w1, b1, w2, b2.
using model = std::vector<float>;
constexpr std::size_t b1 = 2 * units, w2 = 3 * units, b2 = 4 * units;

using exchange_type = pith::gradient_exchange<float, pith::seq_executor, pith::mpi_communicator>;
using state = std::vector<std::byte>;

float coordinate(int i, int axis) { return static_cast<float>(i * (axis == 0 ? 37 : 101) % points) / points - 0.5f; }

struct activations {
  float unit[points][units], error[points];
};

float forward(model const& p, activations& a) {
  float loss = 0;
  for (int i = 0; i < points; ++i) {
    float y = p[b2];
    for (std::size_t k = 0; k < units; ++k) {
      auto const u = p[2 * k] * coordinate(i, 0) + p[2 * k + 1] * coordinate(i, 1) + p[b1 + k];
      a.unit[i][k] = u / (1 + std::fabs(u));
      y += p[w2 + k] * a.unit[i][k];
    }
    a.error[i] = y - coordinate(i, 0) * coordinate(i, 1);
    loss += a.error[i] * a.error[i];
  }
  return loss / points;
}

void backward(model const& p, activations const& a, model& g, int rank, int ranks) {
  g.assign(p.size(), 0);
  auto const scale = 2.0f * static_cast<float>(ranks) / points;
  for (int i = rank; i < points; i += ranks) {
    g[b2] += scale * a.error[i];
    for (std::size_t k = 0; k < units; ++k) {
      g[w2 + k] += scale * a.error[i] * a.unit[i][k];
      auto const slope = 1 - std::fabs(a.unit[i][k]);
      auto const d = scale * a.error[i] * p[w2 + k] * slope * slope;
      g[b1 + k] += d;
      for (int axis = 0; axis < 2; ++axis) g[2 * k + static_cast<std::size_t>(axis)] += d * coordinate(i, axis);
    }
  }
}

exchange_type make(pith::mpi_communicator& comm) {
  auto const codec = pith::error_feedback(pith::top_k(0.25) | pith::qsgd<8>());
  auto const policy = [&](pith::tensor_spec const& tensor) -> pith::any_codec<float> {
    if (tensor.name == "w1" || tensor.name == "w2") return codec;
    return pith::cast<pith::bfloat16>();
  };
  return {pith::seq,
          comm,
          {{"w1", pith::matrix(units, 2)},
           {"b1", pith::vector(units)},
           {"w2", pith::vector(units)},
           {"b2", pith::vector(1)}},
          policy,
          {.bucket_bytes = 100}};
}

/// The states of all ranks. They are equally long.
std::vector<state> gathered(pith::mpi_communicator& comm, state const& mine) {
  auto all = state(mine.size() * comm.size());
  comm.all_gather(pith::seq, pith::span<std::byte const>(mine), pith::span<std::byte>(all)).wait(pith::seq);
  auto states = std::vector<state>();
  for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(mine.size()))
    states.emplace_back(at, at + static_cast<std::ptrdiff_t>(mine.size()));
  return states;
}

/// Continues from the states of all ranks of a job, and returns those of this job.
std::vector<state> train(MPI_Comm ranks, model& p, std::vector<state> const& states) {
  static auto a = activations();
  auto comm = pith::mpi_communicator(ranks);
  auto exchange = make(comm);
  if (!states.empty()) exchange.import_state(pith::reshard(states, comm.size(), comm.rank()));
  auto g = p;
  for (int step = 0; step < steps; ++step) {
    auto const loss = forward(p, a);
    if (comm.rank() == 0 && step % 100 == 0) std::printf("%u ranks, step %3d: loss %.9g\n", comm.size(), step, loss);
    backward(p, a, g, static_cast<int>(comm.rank()), static_cast<int>(comm.size()));
    exchange.all_reduce_mean(g);
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= 0.5f * g[i];
  }
  return gathered(comm, exchange.export_state());
}

void train_twice() {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto p = model(b2 + 1);
  for (std::size_t k = 0; k < units; ++k) {
    p[2 * k] = static_cast<float>(k % 4) - 1.5f;
    p[2 * k + 1] = static_cast<float>(k / 4) - 1.5f;
    p[w2 + k] = static_cast<float>(k * 5 % units) / units - 0.5f;
  }
  auto const states = train(MPI_COMM_WORLD, p, {});
  auto fewer = MPI_Comm();
  MPI_Comm_split(MPI_COMM_WORLD, rank < ranks - 1 ? 0 : MPI_UNDEFINED, rank, &fewer);
  if (fewer == MPI_COMM_NULL) return;
  train(fewer, p, states);
  MPI_Comm_free(&fewer);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  train_twice();
  MPI_Finalize();
}
