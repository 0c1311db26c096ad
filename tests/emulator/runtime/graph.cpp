// tests/emulator/runtime/graph.cpp — graphs, and their replays.
#include "runtime/graph.hpp"

#include "runtime/call.hpp"
#include "runtime/leaks.hpp"
#include "runtime/submit.hpp"

#include <algorithm>

using namespace emulator;

namespace {

/// The nodes of a graph, in any order that its edges allow.
class replay {
 public:
  explicit replay(CUgraph_st const& graph) : nodes_(graph.nodes), is_done_(nodes_.size()) {}

  bool operator()() {
    auto went_on = false;
    for (auto const i : schedule::of_process().in_turn(nodes_.size())) {
      if (is_done_[i] || !may_begin(nodes_[i]) || !nodes_[i].run()) continue;
      is_done_[i] = went_on = true;
    }
    if (went_on) schedule::of_process().stir();
    return std::ranges::all_of(is_done_, std::identity());
  }

 private:
  bool may_begin(CUgraph_st::node const& n) const {
    return std::ranges::all_of(n.after, [&](std::size_t before) { return is_done_[before]; });
  }

  std::vector<CUgraph_st::node> nodes_;
  std::vector<bool> is_done_;
};

}  // namespace

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call([=] {
    *made = new CUgraphExec_st{*graph};
    ++living(object::executable_graph);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t launched, cudaStream_t stream) {
  return call([=] {
    auto const after_last = [last = launched->last] { return last.is_reached(); };
    if (auto const status = submit(stream, after_last); status != cudaSuccess) return status;
    auto const status = submit(stream, replay(launched->graph));
    launched->last = stream_of(stream).end();
    return status;
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, std::size_t* count) {
  return call([=] {
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ended) {
  return call([=] {
    if (ended == nullptr) return cudaErrorInvalidValue;
    delete ended;
    --living(object::executable_graph);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t ended) {
  return call([=] {
    if (ended == nullptr) return cudaErrorInvalidValue;
    delete ended;
    --living(object::graph);
    return cudaSuccess;
  });
}

}  // extern "C"
