// device_process_group.hpp — a communicator for device memory, on a torch process group.
#pragma once

#include "device_communicator.hpp"
#include "process_group.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace pith_torch {

/// A process_group for CUDA tensors. The call of an exchange runs with the exchange's stream as torch's current stream, so
/// the collectives and torch's Work.wait() are ordered by this stream.
class device_process_group final : public device_communicator {
 public:
  device_process_group(nb::object collectives, int device)
      : group_(std::move(collectives), {nb::device::cuda::value, device}) {}

  unsigned rank() const override { return group_.rank(); }
  unsigned size() const override { return group_.size(); }

  request all_gather(pith::cuda_executor const& exec, pith::device_span<std::byte const> mine,
                     pith::device_span<std::byte> all) override {
    return request_of(group_.all_gather(exec, mine, all));
  }
  request all_to_all(pith::cuda_executor const& exec, pith::device_span<std::byte const> mine,
                     pith::device_span<std::byte> all) override {
    return request_of(group_.all_to_all(exec, mine, all));
  }

 private:
  struct pending_work final : pending {
    explicit pending_work(work of) : call(std::move(of)) {}
    void wait(pith::cuda_executor const& exec) override { call.wait(exec); }
    bool test(pith::cuda_executor const& exec) override { return call.test(exec); }
    work call;
  };
  static request request_of(work call) { return request(std::make_unique<pending_work>(std::move(call))); }

  request reduce(pith::cuda_executor const&, pith::element_kind kind, void* x, std::size_t n,
                 pith::reduction how) override {
    return request_of(group_.all_reduce(kind, x, n, how));
  }

  process_group group_;
};

}  // namespace pith_torch
