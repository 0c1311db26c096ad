// pith/exec/detail/side_stream.hpp — a CUDA stream that goes on beside others, but where one is put behind the other.
#pragma once

#include <pith/exec/cuda_executor.hpp>

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

namespace pith::inline v0::detail {

struct destroy_stream {
  void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
};
struct destroy_event {
  void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
};

/// Whether all is done that a stream was given; not while a graph is captured.
inline bool is_idle(cudaStream_t stream) {
  auto const status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // it is no failure, and others of this thread ask for the last one
    return false;
  }
  check_cuda(status, "cudaStreamQuery");
  return true;
}

/// A stream of the current device, its own or the caller's, and the event that orders it among others. Nothing here
/// waits for the device, so that a graph captures both streams, where the one it began with follows in the end.
class side_stream {
 public:
  side_stream() : own_(made_stream()), stream_(own_.get()), event_(made_event()) {}
  explicit side_stream(cudaStream_t callers) : stream_(callers), event_(made_event()) {}

  cudaStream_t get() const { return stream_; }

  /// What it is given from here on begins when all is done that `other` has been given.
  void follow(cudaStream_t other) const { order(other, stream_); }
  /// What `other` is given from here on begins when all is done that this one has been given.
  void lead(cudaStream_t other) const { order(stream_, other); }

  bool is_idle() const { return detail::is_idle(stream_); }

 private:
  using stream_owner = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroy_stream>;
  using event_owner = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy_event>;

  /// In no order with the default stream, and before others where both have blocks to run: a kernel that fills the
  /// device would else hold up what is to go on beside it.
  static stream_owner made_stream() {
    int least = 0, most = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &most), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, most), "cudaStreamCreateWithPriority");
    return stream_owner(stream);
  }
  static event_owner made_event() {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    return event_owner(event);
  }

  /// One event is enough: a stream that was told to wait does so for what was recorded then, whatever is recorded next.
  void order(cudaStream_t first, cudaStream_t then) const {
    check_cuda(cudaEventRecord(event_.get(), first), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(then, event_.get(), 0), "cudaStreamWaitEvent");
  }

  stream_owner own_;
  cudaStream_t stream_;
  event_owner event_;
};

}  // namespace pith::inline v0::detail
