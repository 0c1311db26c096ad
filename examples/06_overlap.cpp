// examples/06_overlap.cpp — exchanges buckets of gradients while backward computes earlier layers.
//
//   4 layers in 3 buckets
//   5 steps in backward order and by one call: the same bits
//   45 spans of time in overlap.json, for chrome://tracing or ui.perfetto.dev
//
// The ranks are threads here, which wait for each other in each transfer. With MPI or NCCL transfers overlap with
// encoding and decoding.
#include <pith/comm/threads.hpp>
#include <pith/exchange/gradient_exchange.hpp>
#include <pith/pith.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

namespace {

std::vector<pith::tensor_spec> const layers = {{"first", pith::matrix(300, 100)},
                                               {"second", pith::matrix(100, 100)},
                                               {"third", pith::matrix(100, 100)},
                                               {"head", pith::matrix(100, 10)}};

/// What backward writes of a layer: here some waves, other ones on each rank.
void backward(pith::span<float> gradient, unsigned rank) {
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient.data()[i] = std::sin(static_cast<float>(i * i + 7 * rank + 1));
}

void train(pith::thread_communicator comm) {
  auto const codec = pith::error_feedback(pith::top_k(0.01) | pith::qsgd<8>());
  auto trace = pith::exchange_trace();
  auto exchange = pith::make_exchange<float>(pith::seq, comm, layers, codec, {.bucket_bytes = 60'000, .trace = &trace});
  auto one_call = pith::make_exchange<float>(pith::seq, comm, layers, codec);

  auto gradient = std::vector<float>(exchange.size()), same = gradient;
  bool is_same = true;
  for (int step = 0; step < 5; ++step) {
    exchange.begin(gradient);
    auto end = gradient.size();
    for (auto layer = layers.size(); layer-- > 0;) {
      auto const n = layers[layer].dims.n;
      backward(pith::span(gradient).subspan(end -= n, n), comm.rank());
      std::copy_n(gradient.data() + end, n, same.data() + end);
      exchange.ready(layer);  // from here on it may be on its way
    }
    exchange.wait();
    one_call.all_reduce_mean(same);
    is_same = is_same && gradient == same;
  }

  if (comm.rank() != 0) return;
  std::ofstream("overlap.json") << trace.json();
  std::printf("%zu layers in %zu buckets\n", layers.size(), exchange.buckets());
  std::printf("5 steps in backward order and by one call: %s bits\n", is_same ? "the same" : "different");
  std::printf("%zu spans of time in overlap.json, for chrome://tracing or ui.perfetto.dev\n", trace.entries().size());
}

}  // namespace

int main() { pith::run_ranks(4, train); }
