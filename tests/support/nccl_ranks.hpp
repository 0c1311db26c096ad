// tests/support/nccl_ranks.hpp — ranks of NCCL: threads, each with a device, a stream and a communicator.
#pragma once

#include <pith/comm/nccl.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exec/cuda_executor.hpp>

#include <doctest/doctest.h>

#include "support/device.hpp"

namespace support {

/// A NCCL communicator that ends with its scope, unless it was aborted.
class nccl_rank {
 public:
  nccl_rank(ncclUniqueId const& id, unsigned ranks, unsigned rank) {
    auto const code = ncclCommInitRank(&comm_, static_cast<int>(ranks), id, static_cast<int>(rank));
    if (code != ncclSuccess) throw pith::communication_error(ncclGetErrorString(code));
  }
  nccl_rank(nccl_rank const&) = delete;
  nccl_rank& operator=(nccl_rank const&) = delete;
  ~nccl_rank() {
    if (comm_ != nullptr) ncclCommDestroy(comm_);
  }

  ncclComm_t get() const { return comm_; }
  /// Call this after aborting the communicator.
  void forget() { comm_ = nullptr; }

 private:
  ncclComm_t comm_ = nullptr;
};

inline ncclUniqueId new_nccl_id() {
  auto id = ncclUniqueId();
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

inline bool has_devices(unsigned n) {
  int found = 0;
  return cudaGetDeviceCount(&found) == cudaSuccess && static_cast<unsigned>(found) >= n;
}

/// Calls f(executor, NCCL's communicator) on one thread per rank, if there are enough devices.
template <class F>
void run_on_devices(unsigned ranks, F const& f) {
  if (!has_devices(ranks)) {
    MESSAGE("left out: ", ranks, " ranks need as many devices");
    return;
  }
  auto const id = new_nccl_id();
  pith::run_ranks(ranks, [&](pith::thread_communicator threads) {
    pith::check_cuda(cudaSetDevice(static_cast<int>(threads.rank())), "cudaSetDevice");
    auto const stream = own_stream();
    auto rank = nccl_rank(id, ranks, threads.rank());
    f(pith::on(stream.get()), rank);
  });
}

}  // namespace support
