// tests/support/replayed.hpp — a step of an exchange that is captured in a graph and replayed.
#pragma once

#include <pith/exec/cuda_executor.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <utility>

namespace support {

struct at_once {
  template <class Exchange, class Gradients>
  void operator()(Exchange& exchange, Gradients g) const {
    exchange.all_reduce_mean(g);
  }
};

/// The work that f() submits to a stream, as a graph.
class captured {
 public:
  template <class F>
  captured(cudaStream_t stream, F const& f) : stream_(stream) {
    using pith::check_cuda;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin");
    f();
    cudaGraph_t recorded = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &recorded), "end");
    check_cuda(cudaGraphGetNodes(recorded, nullptr, &nodes_), "count");
    check_cuda(cudaGraphInstantiate(&graph_, recorded, 0), "instantiate");
    check_cuda(cudaGraphDestroy(recorded), "destroy");
  }
  captured(captured const&) = delete;
  captured& operator=(captured const&) = delete;
  ~captured() { static_cast<void>(cudaGraphExecDestroy(graph_)); }

  /// Kernels, copies and fills.
  std::size_t nodes() const { return nodes_; }
  void replay() const { pith::check_cuda(cudaGraphLaunch(graph_, stream_), "launch"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t graph_ = nullptr;
  std::size_t nodes_ = 0;
};

/// Runs the first step without capture, which loads kernels and connects NCCL. Captures the second step and replays it
/// from then on.
template <class Step>
class replayed {
 public:
  replayed(cudaStream_t stream, Step step) : stream_(stream), step_(std::move(step)) {}

  template <class Exchange, class Gradients>
  void operator()(Exchange& exchange, Gradients g) {
    if (std::exchange(is_first_, false)) return step_(exchange, g);
    if (!graph_) graph_.emplace(stream_, [&] { step_(exchange, g); });
    graph_->replay();
  }

 private:
  cudaStream_t stream_;
  Step step_;
  bool is_first_ = true;
  std::optional<captured> graph_;
};

}  // namespace support
