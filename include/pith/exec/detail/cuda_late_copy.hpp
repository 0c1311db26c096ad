// pith/exec/detail/cuda_late_copy.hpp — a device-to-host copy that one step requests and the next step reads.
#pragma once

#include <pith/core/detail/late_copy.hpp>
#include <pith/exec/cuda_executor.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace pith { inline namespace PITH_ABI { namespace detail {

struct free_pinned {
  void operator()(std::uint32_t* memory) const { static_cast<void>(cudaFreeHost(memory)); }
};
/// Waits for the event, then destroys the event. The wait ensures that no pending copy writes to freed memory.
struct wait_and_destroy {
  void operator()(cudaEvent_t event) const {
    static_cast<void>(cudaEventSynchronize(event));
    static_cast<void>(cudaEventDestroy(event));
  }
};

/// An asynchronous copy to pinned host memory. `read` waits only for the copy that `ask` submits, and for earlier work
/// on the stream.
template <>
class late_copy<cuda_executor> {
 public:
  late_copy() = default;
  late_copy(late_copy&&) = default;
  /// Waits for a pending copy, which must not write to freed memory, and then destroys the old members.
  late_copy& operator=(late_copy&& other) noexcept {
    auto held = late_copy(std::move(other));
    std::swap(bytes_, held.bytes_);
    words_.swap(held.words_);
    done_.swap(held.done_);
    return *this;
  }
  explicit late_copy(std::size_t words) : bytes_(words * sizeof(std::uint32_t)) {
    if (words == 0) return;
    void* memory = nullptr;
    check_cuda(cudaMallocHost(&memory, bytes_), "cudaMallocHost");
    words_.reset(static_cast<std::uint32_t*>(memory));
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    done_.reset(event);
  }

  void ask(cuda_executor const& exec, std::uint32_t const* from) {
    if (bytes_ == 0) return;
    check_cuda(cudaMemcpyAsync(words_.get(), from, bytes_, cudaMemcpyDeviceToHost, exec.stream()),
               "cudaMemcpyAsync from the device");
    check_cuda(cudaEventRecord(done_.get(), exec.stream()), "cudaEventRecord");
  }
  std::uint32_t const* read(cuda_executor const&) {
    if (bytes_ > 0) check_cuda(cudaEventSynchronize(done_.get()), "cudaEventSynchronize");
    return words_.get();
  }

 private:
  std::size_t bytes_ = 0;
  std::unique_ptr<std::uint32_t, free_pinned> words_;
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, wait_and_destroy> done_;
};

}}}  // namespace pith::PITH_ABI::detail
