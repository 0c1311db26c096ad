// pith/comm/detail/nccl_request.hpp — a pending NCCL call on the communicator's own stream.
#pragma once

#include <pith/exec/detail/side_stream.hpp>

#include <cuda_runtime_api.h>

#include <utility>

namespace pith { inline namespace PITH_ABI {

/// A pending call of an nccl_communicator. The transfer starts after all work that is on the executor's stream at the
/// time of the call. `wait(exec)` makes the stream of `exec` wait for this call and all earlier calls; the host does
/// not wait. If `wait` is not called, the destructor makes the executor's stream wait, so that later work of this
/// stream can reuse the memory.
///
///   requires    a communicator that outlives the request; the executor's stream must exist until wait() or the
///               destructor
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
    } catch (cuda_error const&) {  // the next CUDA call reports the error again
    }
  }

  template <class E>
  void wait(E const& exec) {
    if (transfers_ != nullptr) std::exchange(transfers_, nullptr)->lead(exec.stream());
  }
  /// Queries the transfer stream. CUDA forbids such a query during the capture of a graph.
  template <class E>
  bool test(E const&) {
    if (transfers_ != nullptr && transfers_->is_idle()) transfers_ = nullptr;
    return transfers_ == nullptr;
  }

 private:
  detail::side_stream const* transfers_;
  cudaStream_t caller_;
};

}}  // namespace pith::PITH_ABI
