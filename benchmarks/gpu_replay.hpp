// benchmarks/gpu_replay.hpp — captures work on a stream in a graph, launches it and times it between two events.
#pragma once

#include "yardstick.hpp"

#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/detail/side_stream.hpp>

#include <memory>
#include <type_traits>

namespace bench {

using pith::check_cuda;

struct destroy_graph {
  void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
  void operator()(cudaGraphExec_t graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
};
template <class Handle>
using graph_owner = std::unique_ptr<std::remove_pointer_t<Handle>, destroy_graph>;

/// The graph of the work that `run()` enqueues on a stream, which must not be the default one.
class replay {
 public:
  template <class Run>
  replay(pith::cuda_executor const& exec, Run const& run) : stream_(exec.stream()) {
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    run();
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    auto const captured = graph_owner<cudaGraph_t>(graph);
    check_cuda(cudaGraphGetNodes(graph, nullptr, &nodes_), "cudaGraphGetNodes");
    cudaGraphExec_t ready = nullptr;
    check_cuda(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    ready_.reset(ready);
  }

  /// Kernels, copies and fills.
  std::size_t nodes() const { return nodes_; }
  void launch() const { check_cuda(cudaGraphLaunch(ready_.get(), stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  std::size_t nodes_ = 0;
  graph_owner<cudaGraphExec_t> ready_;
};

class stopwatch {
 public:
  explicit stopwatch(cudaStream_t stream) : stream_(stream), begin_(made()), end_(made()) {}

  double seconds(replay const& work) const {
    check_cuda(cudaEventRecord(begin_.get(), stream_), "cudaEventRecord");
    work.launch();
    check_cuda(cudaEventRecord(end_.get(), stream_), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  using owner = pith::detail::event_owner;

  static owner made() {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreate(&event), "cudaEventCreate");
    return owner(event);
  }

  cudaStream_t stream_;
  owner begin_, end_;
};

/// A timed operation: one graph per set of buffers.
struct operation {
  std::string name;
  traffic least;
  double ratio = 0, error = 0;  ///< of a codec
  std::vector<replay> sets = {};

  std::size_t launches() const { return sets.front().nodes(); }
};

/// Times them in the same rounds, each call on the next set of buffers.
inline std::vector<timing> interleave(stopwatch const& watch, std::vector<operation> const& operations,
                                      std::size_t rounds) {
  return interleave(operations.size(), rounds, [&](std::size_t i, std::size_t call) {
    auto const& sets = operations[i].sets;
    return watch.seconds(sets[call % sets.size()]);
  });
}

}  // namespace bench
