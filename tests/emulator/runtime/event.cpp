// tests/emulator/runtime/event.cpp — events: places in streams, or in a graph that is captured.
#include "runtime/call.hpp"
#include "runtime/graph.hpp"
#include "runtime/leaks.hpp"
#include "runtime/submit.hpp"

#include <chrono>

using namespace emulator;

using clock_time = std::chrono::steady_clock::time_point;

struct CUevent_st {
  int device;
  bool has_time;
  place last = {};
  std::shared_ptr<clock_time> reached_at = std::make_shared<clock_time>();
  std::shared_ptr<capture> captured = {};
  std::set<std::size_t> nodes = {};
};

namespace {

void record(CUevent_st& event, CUstream_st& stream) {
  event.captured = stream.captured;
  event.nodes = stream.last_nodes;
  if (stream.captured) return;
  event.reached_at = std::make_shared<clock_time>();
  submit(&stream, once([at = event.reached_at] { *at = std::chrono::steady_clock::now(); }));
  event.last = stream.end();
}

/// The stream joins the capture, if it is in none.
cudaError_t follow_captured(CUstream_st& stream, CUevent_st const& event) {
  if (event.captured->graph == nullptr) return cudaErrorCapturedEvent;
  if (stream.captured && stream.captured != event.captured) return cudaErrorStreamCaptureMerge;
  stream.captured = event.captured;
  stream.last_nodes.insert(event.nodes.begin(), event.nodes.end());
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  return call([=] {
    *made = new CUevent_st{current_device().number, (flags & cudaEventDisableTiming) == 0};
    ++living(object::event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* made) { return cudaEventCreateWithFlags(made, cudaEventDefault); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([=] {
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    delete event;
    --living(object::event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return call([=] {
    auto& stream = stream_of(handle);
    if (event->device != stream.device) return cudaErrorInvalidResourceHandle;
    record(*event, stream);
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return call([=] {
    auto& stream = stream_of(handle);
    if (event->captured) return follow_captured(stream, *event);
    if (stream.captured && event->last.stream) return cudaErrorStreamCaptureIsolation;
    return submit(&stream, [last = event->last] { return last.is_reached(); });
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([=] {
    if (event->captured || forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
    schedule::of_process().wait_until([last = event->last] { return last.is_reached(); });
    return device_of(event->device).fault;
  });
}
/// A query lets streams make progress.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([=] {
    if (event->captured || forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
    if (!event->last.is_reached()) schedule::of_process().step();
    return event->last.is_reached() ? device_of(event->device).fault : cudaErrorNotReady;
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  return call([=] {
    if (!first->has_time || !second->has_time) return cudaErrorInvalidResourceHandle;
    if (!first->last.is_reached() || !second->last.is_reached()) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(*second->reached_at - *first->reached_at).count();
    return cudaSuccess;
  });
}

}  // extern "C"
