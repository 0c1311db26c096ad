// tests/emulator/runtime/copy.cpp — copies between host and devices, and bytes that are set.
#include "runtime/call.hpp"
#include "runtime/memory.hpp"
#include "runtime/submit.hpp"

#include <cstddef>

using namespace emulator;

namespace {

bool fits(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  auto const to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  auto const from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return (!to_device || is_allocated(to, bytes)) && (!from_device || is_allocated(from, bytes));
}

void wait_for(CUstream_st const& stream) {
  schedule::of_process().wait_until([end = stream.end()] { return end.is_reached(); });
}

/// Pageable memory is read when the stream comes to it, which is the latest that CUDA allows; the host waits until it is
/// written. A graph does both in each replay.
cudaError_t copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  if (bytes == 0) return cudaSuccess;
  if (!fits(to, from, bytes, kind)) return cudaErrorInvalidValue;
  auto const& stream = stream_of(handle);
  auto const status = submit(handle, once([=] { move_bytes(to, from, bytes); }));
  if (!stream.captured && !is_allocated(to, bytes)) wait_for(stream);
  return status;
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return call([=] { return copy(to, from, bytes, kind, stream); });
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call([=] {
    auto const status = copy(to, from, bytes, kind, nullptr);
    wait_for(current_device().legacy);
    return status;
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call([=] {
    if (bytes == 0) return cudaSuccess;
    if (!is_allocated(to, bytes)) return cudaErrorInvalidValue;
    return submit(stream, once([=] { fill_bytes(to, value, bytes); }));
  });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }

}  // extern "C"
