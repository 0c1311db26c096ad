// tests/emulator/runtime/capture.cpp — streams whose work becomes a graph.
#include "runtime/call.hpp"
#include "runtime/graph.hpp"
#include "runtime/leaks.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace emulator {

namespace {

std::vector<capture*> under_way;

/// Which captures forbid this thread to wait.
thread_local auto mode_of_thread = cudaStreamCaptureModeGlobal;

bool forbids_waiting(capture const& c) {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed || c.mode == cudaStreamCaptureModeRelaxed) return false;
  if (c.thread == std::this_thread::get_id()) return true;
  return mode_of_thread == cudaStreamCaptureModeGlobal && c.mode == cudaStreamCaptureModeGlobal;
}

/// Whether every node comes before the end of the stream that the capture began with.
bool is_joined(CUgraph_st const& graph, std::set<std::size_t> const& last) {
  auto reached = std::vector<bool>(graph.nodes.size());
  for (auto const i : last) reached[i] = true;
  for (auto i = graph.nodes.size(); i-- > 0;) {
    if (!reached[i]) return false;
    for (auto const before : graph.nodes[i].after) reached[before] = true;
  }
  return true;
}

/// All streams of a capture are as before it.
void leave(capture const& c) {
  std::erase(under_way, &c);
  for (auto* const s : schedule::of_process().streams()) {
    if (s->captured.get() == &c) s->captured.reset(), s->last_nodes.clear();
  }
}

}  // namespace

bool forbids_waiting() {
  auto is_forbidden = false;
  for (auto* const c : under_way) {
    if (!forbids_waiting(*c)) continue;
    c->is_invalid = is_forbidden = true;
  }
  return is_forbidden;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([=] {
    auto& stream = stream_of(handle);
    if (stream.captured || &stream == &device_of(stream.device).legacy) return cudaErrorStreamCaptureUnsupported;
    stream.captured = std::make_shared<capture>(capture{new CUgraph_st, &stream, mode});
    under_way.push_back(stream.captured.get());
    return cudaSuccess;
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call([=] {
    std::swap(*mode, mode_of_thread);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* made) {
  return call([=] {
    auto& stream = stream_of(handle);
    *made = nullptr;
    auto const ended = stream.captured;
    if (!ended) return cudaErrorIllegalState;
    if (ended->origin != &stream) return cudaErrorStreamCaptureUnmatched;
    auto const last = stream.last_nodes;
    leave(*ended);
    auto graph = std::unique_ptr<CUgraph_st>(std::exchange(ended->graph, nullptr));
    if (ended->is_invalid) return cudaErrorStreamCaptureInvalidated;
    if (!is_joined(*graph, last)) return cudaErrorStreamCaptureUnjoined;
    ++living(object::graph);
    *made = graph.release();
    return cudaSuccess;
  });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call([=] {
    *status = stream_of(stream).captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t*, cudaGraphNode_t const**, cudaGraphEdgeData const**, std::size_t*) {
  if (id != nullptr) *id = 1;
  return cudaStreamIsCapturing(stream, status);
}

}  // extern "C"
