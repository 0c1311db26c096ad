// tests/support/queued_cuda.cpp — the calls of the CUDA runtime that order streams, as queues on the host.
#include "support/queued_cuda.hpp"

#include <cuda_runtime_api.h>

#include <utility>

using support::queued_device;

namespace {

/// The error of the last failed call, until it is read.
thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) {
  *least = 0;
  *most = -1;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned, int) {
  *made = new CUstream_st();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
/// A query lets streams make progress.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (!stream->is_idle()) queued_device::current().go_on();
  if (stream->is_idle()) return cudaSuccess;
  return last_error = cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned) {
  *made = new CUevent_st();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  *event = {stream->done, stream->given};
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream->give({nullptr, event->stream, event->given});
  return cudaSuccess;
}

cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
char const* cudaGetErrorString(cudaError_t) { return "an error of queues"; }
