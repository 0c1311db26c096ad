// tests/emulator/runtime/stream.cpp — pieces of work in their order, and the calls that make and wait for streams.
#include "runtime/stream.hpp"

#include "runtime/call.hpp"
#include "runtime/device.hpp"
#include "runtime/graph.hpp"
#include "runtime/leaks.hpp"
#include "runtime/schedule.hpp"
#include "runtime/submit.hpp"

using namespace emulator;

bool CUstream_st::go_on() {
  if (pieces_.empty()) return false;
  auto const is_dropped = device_of(device).fault != cudaSuccess;
  if (!is_dropped && !pieces_.front()()) return false;
  pieces_.pop_front();
  ++progress_->done;
  return true;
}

extern "C" {

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int) {
  return call([&] {
    *made = &schedule::of_process().add(current_device().number, (flags & cudaStreamNonBlocking) == 0);
    ++living(object::stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return cudaStreamCreateWithPriority(made, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* made) { return cudaStreamCreateWithPriority(made, cudaStreamDefault, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] {
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    schedule::of_process().destroy(*stream);
    --living(object::stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return call([&] {
    *device = stream_of(stream).device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call([&] {
    auto& stream = stream_of(handle);
    if (stream.captured || forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
    auto const end = stream.end();
    schedule::of_process().wait_until([&] { return end.is_reached(); });
    return device_of(stream.device).fault;
  });
}
/// A query lets streams make progress.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call([&] {
    auto const& stream = stream_of(handle);
    if (stream.captured || forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
    if (!stream.is_idle()) schedule::of_process().step();
    return stream.is_idle() ? device_of(stream.device).fault : cudaErrorNotReady;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call([&] {
    if (forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
    wait_for(current_device());
    return current_device().fault;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f, void* data) {
  return call([&] { return submit(stream, once([=] { f(data); })); });
}

}  // extern "C"
