// examples/13_mpi_engine.cpp — a training engine over MPI: its own model, data and optimizer, and pith for the means.
//
//   mpirun -n 4 ./13_mpi_engine
//   step   0  loss 1.553
//   step  50  loss 0.437
//   step 100  loss 0.072
//   6720 bytes sent per step, not 24960
#include <pith/collective/two_shot.hpp>
#include <pith/comm/mpi.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr std::size_t width = 64, weights = width * width;
std::vector<pith::tensor_spec> const tensors = {{"weight", pith::matrix(width, width)}, {"bias", pith::vector(width)}};

/// A linear layer that learns y_i = x_i + 1 from the samples of this rank. The gradients lie one after another.
struct engine {
  std::mt19937 random;
  std::vector<float> w = std::vector<float>(weights + width), gradient = w, velocity = w;
  std::vector<float> x = std::vector<float>(width), error = x;

  float forward() {
    float loss = 0;
    for (auto& v : x) v = static_cast<float>(random()) * 0x1p-31f - 1;
    for (std::size_t row = 0; row < width; ++row) {
      error[row] = w[weights + row] - x[row] - 1;
      for (std::size_t i = 0; i < width; ++i) error[row] += w[row * width + i] * x[i];
      loss += error[row] * error[row] / width;
    }
    return loss;
  }
  void bias_gradient() { std::copy(error.begin(), error.end(), gradient.begin() + weights); }
  void weight_gradient() {
    for (std::size_t i = 0; i < weights; ++i) gradient[i] = error[i / width] * x[i % width];
  }
  /// SGD with momentum. The gradients are means now, so all ranks clip by the same norm.
  void update() {
    float squared = 0;
    for (auto g : gradient) squared += g * g;
    float const scale = 0.003f / std::max(1.0f, std::sqrt(squared) / 10);
    for (std::size_t i = 0; i < w.size(); ++i) {
      velocity[i] = 0.9f * velocity[i] + gradient[i];
      w[i] -= scale * velocity[i];
    }
  }
};

/// Backward computes the gradient of the bias first.
template <class Exchange>
float step(engine& model, Exchange& exchange) {
  exchange.begin(model.gradient);
  auto const loss = model.forward();
  model.bias_gradient();
  exchange.ready(1);  // the exchange may send it from here on
  model.weight_gradient();
  exchange.ready(0);
  exchange.wait();
  model.update();
  return loss;
}

void train() {
  auto comm = pith::mpi_communicator(MPI_COMM_WORLD, {.timeout = std::chrono::seconds(60)});
  // Declared before the exchange, so that the gradients outlive it.
  auto model = engine{.random = std::mt19937(comm.rank())};
  auto exchange = pith::make_exchange<float>(pith::seq, comm, tensors, pith::matrices(pith::two_shot(pith::qsgd<8>())));
  for (int i = 0; i <= 100; ++i) {
    auto const loss = step(model, exchange);
    if (comm.rank() == 0 && i % 50 == 0) std::printf("step %3d  loss %.3f\n", i, loss);
  }
  auto const sent = exchange.report().total;
  if (comm.rank() == 0) std::printf("%.0f bytes sent per step, not %.0f\n", sent.wire_bytes, sent.dense_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);  // ready() starts a thread that calls MPI
  if (provided < MPI_THREAD_SERIALIZED) MPI_Abort(MPI_COMM_WORLD, 1);
  train();
  MPI_Finalize();
}
