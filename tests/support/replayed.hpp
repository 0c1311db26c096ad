// tests/support/replayed.hpp — a step of an exchange that is captured in a graph and replayed.
#pragma once

#include <pith/exec/cuda_executor.hpp>

#include <cuda_runtime_api.h>

#include <utility>

namespace support {

struct at_once {
  template <class Exchange, class Gradients>
  void operator()(Exchange& exchange, Gradients g) const {
    exchange.all_reduce_mean(g);
  }
};

/// Runs the first step without capture, which loads kernels and connects NCCL. Captures the second step and replays it
/// from then on.
template <class Step>
class replayed {
 public:
  replayed(cudaStream_t stream, Step step) : stream_(stream), step_(std::move(step)) {}
  replayed(replayed const&) = delete;
  replayed& operator=(replayed const&) = delete;
  ~replayed() { static_cast<void>(cudaGraphExecDestroy(graph_)); }

  template <class Exchange, class Gradients>
  void operator()(Exchange& exchange, Gradients g) {
    if (std::exchange(is_first_, false)) return step_(exchange, g);
    if (graph_ == nullptr) graph_ = captured([&] { step_(exchange, g); });
    pith::check_cuda(cudaGraphLaunch(graph_, stream_), "launch");
  }

 private:
  template <class F>
  cudaGraphExec_t captured(F const& f) const {
    using pith::check_cuda;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin");
    f();
    cudaGraph_t recorded = nullptr;
    check_cuda(cudaStreamEndCapture(stream_, &recorded), "end");
    cudaGraphExec_t made = nullptr;
    check_cuda(cudaGraphInstantiate(&made, recorded, 0), "instantiate");
    check_cuda(cudaGraphDestroy(recorded), "destroy");
    return made;
  }

  cudaStream_t stream_;
  Step step_;
  bool is_first_ = true;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace support
