// tests/emulator/runtime/graph.hpp — work that streams were given while they were captured, and its replays.
#pragma once

#include "runtime/stream.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

struct CUgraph_st {
  struct node {
    emulator::work run;
    std::set<std::size_t> after;
  };

  std::size_t add(emulator::work run, std::set<std::size_t> after) {
    nodes.push_back({std::move(run), std::move(after)});
    return nodes.size() - 1;
  }

  std::vector<node> nodes;
};

struct CUgraphExec_st {
  CUgraph_st graph;
  emulator::place last = {};  ///< the end of the last replay, which the next one follows
};

namespace emulator {

/// From the begin to the end of a capture. It begins with one stream and has all that wait for its events.
struct capture {
  CUgraph_st* graph;  ///< nothing after its end
  CUstream_st const* origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread = std::this_thread::get_id();
  bool is_invalid = false;
};

/// Whether some capture refuses calls of this thread that wait or allocate. Such a call makes the capture invalid.
bool forbids_waiting();

}  // namespace emulator
