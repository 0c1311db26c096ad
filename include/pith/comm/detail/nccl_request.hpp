// pith/comm/detail/nccl_request.hpp — a call of NCCL that goes on beside the executor's stream.
#pragma once

#include <pith/exec/detail/side_stream.hpp>

#include <cuda_runtime_api.h>

#include <utility>

namespace pith::inline v0 {

/// A call of a communicator, begun when all is done that the executor's stream had been given. wait() puts a stream
/// behind it, and behind all calls before it; the host waits for nothing.
///
///   requires    a communicator that outlives it, and the executor's stream as long as it was not waited for: its end
///               puts that stream behind the call, so that the memory is the stream's again
class nccl_request {
 public:
  static constexpr bool returns_memory = true;

  nccl_request(detail::side_stream const& transfers, cudaStream_t caller) : transfers_(&transfers), caller_(caller) {
    transfers.follow(caller);
  }
  nccl_request(nccl_request&& other) noexcept
      : transfers_(std::exchange(other.transfers_, nullptr)), caller_(other.caller_) {}
  nccl_request& operator=(nccl_request&&) = delete;
  ~nccl_request() {
    try {
      if (transfers_ != nullptr) transfers_->lead(caller_);
    } catch (cuda_error const&) {  // which the next call of CUDA reports again
    }
  }

  template <class E>
  void wait(E const& exec) {
    if (transfers_ != nullptr) std::exchange(transfers_, nullptr)->lead(exec.stream());
  }
  /// Asks the device, which is not allowed while a graph is captured.
  template <class E>
  bool test(E const&) {
    if (transfers_ != nullptr && transfers_->is_idle()) transfers_ = nullptr;
    return transfers_ == nullptr;
  }

 private:
  detail::side_stream const* transfers_;
  cudaStream_t caller_;
};

}  // namespace pith::inline v0
