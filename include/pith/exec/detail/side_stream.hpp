// pith/exec/detail/side_stream.hpp — a concurrent CUDA stream, with explicit ordering between streams.
#pragma once

#include <pith/exec/cuda_error.hpp>

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

namespace pith { inline namespace PITH_ABI { namespace detail {

struct destroy_stream {
  void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
};
struct destroy_event {
  void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
};

using event_owner = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy_event>;

inline event_owner made_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event_owner(event);
}

/// Returns false for "not ready", which is no failure: later calls must not read it as the last error. An earlier error
/// of the caller's stays the last error. Throws for other errors.
inline bool is_ready(cudaError_t status, char const* call) {
  if (status != cudaErrorNotReady) check_cuda(status, call);
  if (cudaPeekAtLastError() == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
  return status == cudaSuccess;
}
/// Return true if all work of a stream is done, or all work before an event. They must not be called during a capture.
inline bool is_idle(cudaStream_t stream) { return is_ready(cudaStreamQuery(stream), "cudaStreamQuery"); }
inline bool is_done(cudaEvent_t event) { return is_ready(cudaEventQuery(event), "cudaEventQuery"); }

/// A stream of the current device, and an event that orders this stream relative to other streams. This object or the
/// caller owns the stream. No function waits for the device, so a graph may capture work of this stream. Before the
/// capture ends, call lead() with the stream on which the capture began.
class side_stream {
 public:
  side_stream() : own_(made_stream()), stream_(own_.get()), event_(made_event()) {}
  explicit side_stream(cudaStream_t callers) : stream_(callers), event_(made_event()) {}

  cudaStream_t get() const { return stream_; }

  /// Makes later work of this stream wait for all work that is on `other` at the time of the call.
  void follow(cudaStream_t other) const { order(other, stream_); }
  /// Makes later work of `other` wait for all work that is on this stream at the time of the call.
  void lead(cudaStream_t other) const { order(stream_, other); }

  bool is_idle() const { return detail::is_idle(stream_); }

 private:
  using stream_owner = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroy_stream>;

  /// Creates a stream that is not ordered with the default stream. The stream has the highest priority. With a lower
  /// priority, a kernel that fills the device would delay this stream's work.
  static stream_owner made_stream() {
    int least = 0, most = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &most), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, most), "cudaStreamCreateWithPriority");
    return stream_owner(stream);
  }

  /// Makes later work of `then` wait for all work that is on `first`. One event is enough for all calls, since
  /// cudaStreamWaitEvent refers to the last recording of the event before the call.
  void order(cudaStream_t first, cudaStream_t then) const {
    check_cuda(cudaEventRecord(event_.get(), first), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(then, event_.get(), 0), "cudaStreamWaitEvent");
  }

  stream_owner own_;
  cudaStream_t stream_;
  event_owner event_;
};

}}}  // namespace pith::PITH_ABI::detail
