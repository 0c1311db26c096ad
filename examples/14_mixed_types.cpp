// examples/14_mixed_types.cpp — a bfloat16 model with float norms, trained on four ranks.
//
//   step   0: |w - w*| = 166.68
//   step 200: |w - w*| = 2.93
//   step 400: |w - w*| = 0.13
//   30960 bytes per step for bfloat16, 600 for float
//
// Gradients have the types of their tensors. Means of bfloat16 are added in float.
#include <pith/comm/threads.hpp>
#include <pith/exchange/mixed_exchange.hpp>
#include <pith/pith.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

/// Rank r wants w_i = sin(i) + r, so all together want the mean over r.
double target(std::size_t i, double r) { return std::sin(static_cast<double>(i)) + r; }

/// A tensor: its exact weights, and the gradient of its type.
template <class In>
struct tensor {
  std::vector<float> w;
  std::vector<In> gradient;

  explicit tensor(std::size_t n) : w(n), gradient(n) {}

  void differentiate(double rank) {
    for (std::size_t i = 0; i < w.size(); ++i)
      gradient[i] = pith::element_cast<In>(static_cast<float>(w[i] - target(i, rank)));
  }
  void update() {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.02f * pith::element_cast<float>(gradient[i]);
  }
  double squared_distance() const {
    double squares = 0;
    for (std::size_t i = 0; i < w.size(); ++i) squares += std::pow(w[i] - target(i, 1.5), 2);
    return squares;
  }
};

void train(pith::thread_communicator comm) {
  using kind = pith::element_kind;
  auto weight = tensor<pith::bfloat16>(100 * 100);
  auto norm = tensor<float>(100);
  auto exchange = pith::make_mixed_exchange<float, pith::bfloat16>(
      pith::seq, comm, {{"weight", pith::matrix(100, 100), kind::bf16}, {"norm", {100}, kind::f32}},
      pith::matrices(pith::ef(pith::qsgd<8>())));
  for (int step = 0; step <= 400; ++step) {
    if (comm.rank() == 0 && step % 200 == 0)
      std::printf("step %3d: |w - w*| = %.2f\n", step, std::sqrt(weight.squared_distance() + norm.squared_distance()));
    exchange.begin();
    norm.differentiate(comm.rank());
    exchange.ready(1, pith::span<float>(norm.gradient));
    weight.differentiate(comm.rank());
    exchange.ready(0, pith::span<pith::bfloat16>(weight.gradient));
    exchange.wait();
    weight.update();
    norm.update();
  }
  if (comm.rank() != 0) return;
  std::printf("%.0f bytes per step for bfloat16, %.0f for float\n",
              exchange.of<pith::bfloat16>().report().total.wire_bytes, exchange.of<float>().report().total.wire_bytes);
}

}  // namespace

int main() { pith::run_ranks(4, train); }
