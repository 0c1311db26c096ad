// tests/emulator/runtime/error.cpp — the last error of a thread, and errors in words.
#include "runtime/call.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace emulator {

namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct error_text {
  cudaError_t code;
  char const *name, *text;
};

constexpr error_text texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "merging captures of two sequences by a wait for an event"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the capture was not begun in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capture"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
};

error_text const& text_of(cudaError_t code) {
  static constexpr error_text other = {cudaErrorUnknown, "cudaErrorUnknown", "an error without words"};
  auto const* const found = std::ranges::find(texts, code, &error_text::code);
  return found == std::end(texts) ? other : *found;
}

}  // namespace

cudaError_t remembered(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaGetLastError() {
  auto const inside = schedule::of_process().enter();
  return std::exchange(last_error, current_device().fault);
}
cudaError_t cudaPeekAtLastError() { return last_error; }
char const* cudaGetErrorString(cudaError_t code) { return text_of(code).text; }
char const* cudaGetErrorName(cudaError_t code) { return text_of(code).name; }

}  // extern "C"
