// tests/emulator/runtime/memory.cpp — memory of devices, and pinned memory of the host, which all devices share.
#include "runtime/memory.hpp"

#include "runtime/call.hpp"
#include "runtime/device.hpp"
#include "runtime/graph.hpp"

#include <cstdint>
#include <cstring>

namespace emulator {

heap& pinned_memory() {
  static auto& memory = *new heap(device::memory_bytes, heap::visible::to_host_too);
  return memory;
}

heap* heap_of(void const* address) {
  auto const number = reinterpret_cast<std::uint64_t>(address);
  for (int i = 0; i < device_count(); ++i) {
    if (auto& memory = device_of(i).ptx.memory; memory.spans(number, 1)) return &memory;
  }
  return pinned_memory().spans(number, 1) ? &pinned_memory() : nullptr;
}

bool is_allocated(void const* first, std::size_t bytes) {
  auto const* const memory = heap_of(first);
  return memory != nullptr && memory->holds(first, bytes);
}
bool is_allocated_for(int number, void const* first, std::size_t bytes) {
  return device_of(number).ptx.memory.holds(first, bytes) || pinned_memory().holds(first, bytes);
}

unsigned char* bytes_at(void const* address) {
  auto const* const memory = heap_of(address);
  return memory != nullptr ? memory->bytes(address) : static_cast<unsigned char*>(const_cast<void*>(address));
}

void move_bytes(void* to, void const* from, std::size_t bytes) {
  std::memmove(bytes_at(to), bytes_at(from), bytes);
  auto* const written = heap_of(to);
  auto const* const read = heap_of(from);
  if (written != nullptr && read != nullptr) written->define_as(to, *read, from, bytes);
  if (written != nullptr && read == nullptr) written->define(to, bytes);
}
void fill_bytes(void* to, int value, std::size_t bytes) {
  std::memset(bytes_at(to), value, bytes);
  heap_of(to)->define(to, bytes);
}

namespace {

cudaError_t allocate_on_device(void** made, std::size_t bytes) {
  *made = nullptr;
  if (forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
  if (bytes == 0) return cudaSuccess;
  *made = current_device().ptx.memory.allocate(bytes, "an allocation");
  return *made != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

/// The host may write to it at any time, which nothing sees.
cudaError_t allocate_pinned(void** made, std::size_t bytes) {
  *made = nullptr;
  if (forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
  *made = pinned_memory().allocate(bytes, "pinned memory");
  if (*made == nullptr) return cudaErrorMemoryAllocation;
  pinned_memory().define(*made, bytes);
  return cudaSuccess;
}

/// Waits for the device that may use the memory; pinned memory may be used by all.
cudaError_t release(void* memory, bool is_pinned) {
  if (memory == nullptr) return cudaSuccess;
  if (forbids_waiting()) return cudaErrorStreamCaptureUnsupported;
  auto* const in = heap_of(memory);
  if (in == nullptr || (in == &pinned_memory()) != is_pinned) return cudaErrorInvalidValue;
  for (int i = 0; i < device_count(); ++i) {
    if (is_pinned || in == &device_of(i).ptx.memory) wait_for(device_of(i));
  }
  return in->release(memory) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaPointerAttributes attributes(void const* address) {
  auto found = cudaPointerAttributes();
  found.type = cudaMemoryTypeUnregistered;
  if (!is_allocated(address, 1)) return found;
  found.type = heap_of(address) == &pinned_memory() ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  found.devicePointer = const_cast<void*>(address);
  if (found.type == cudaMemoryTypeHost) found.hostPointer = found.devicePointer;
  for (int i = 0; i < device_count(); ++i) {
    if (heap_of(address) == &device_of(i).ptx.memory) found.device = i;
  }
  return found;
}

}  // namespace

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaMalloc(void** made, std::size_t bytes) {
  return call([=] { return allocate_on_device(made, bytes); });
}
cudaError_t cudaFree(void* memory) {
  return call([=] { return release(memory, false); });
}
cudaError_t cudaMallocAsync(void** made, std::size_t bytes, cudaStream_t) { return cudaMalloc(made, bytes); }
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
cudaError_t cudaMallocHost(void** made, std::size_t bytes) {
  return call([=] { return allocate_pinned(made, bytes); });
}
cudaError_t cudaFreeHost(void* memory) {
  return call([=] { return release(memory, true); });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, void const* address) {
  return call([=] {
    *found = attributes(address);
    return cudaSuccess;
  });
}

}  // extern "C"
