// device_communicator.hpp — a communicator for device memory, whose collectives are virtual functions.
#pragma once

#include <pith/comm/communicator.hpp>
#include <pith/core/transfer.hpp>
#include <pith/exec/cuda_executor.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace pith_torch {

/// The base of communicators for device memory, so that exchanges are compiled once for all of them.
///
///   requires    as pith::communicator; all ranks' calls on a device are ordered by the stream of the executor
class device_communicator {
 public:
  /// A pending collective.
  class pending {
   public:
    virtual ~pending() = default;
    virtual void wait(pith::cuda_executor const& exec) = 0;
    virtual bool test(pith::cuda_executor const& exec) = 0;
  };
  /// The request of a collective. Without a pending collective, the collective has been enqueued on the stream.
  class request {
   public:
    request() = default;
    explicit request(std::unique_ptr<pending> call) : call_(std::move(call)) {}
    void wait(pith::cuda_executor const& exec) {
      if (call_) call_->wait(exec);
    }
    bool test(pith::cuda_executor const& exec) { return !call_ || call_->test(exec); }

   private:
    std::unique_ptr<pending> call_;
  };

  virtual ~device_communicator() = default;
  virtual unsigned rank() const = 0;
  virtual unsigned size() const = 0;
  virtual request all_gather(pith::cuda_executor const& exec, pith::device_span<std::byte const> mine,
                             pith::device_span<std::byte> all) = 0;
  virtual request all_to_all(pith::cuda_executor const& exec, pith::device_span<std::byte const> mine,
                             pith::device_span<std::byte> all) = 0;
  template <class T>
  request all_reduce(pith::cuda_executor const& exec, pith::device_span<T> x, pith::reduction how) {
    return reduce(exec, pith::kind_of<T>(), x.data(), x.size(), how);
  }

 private:
  virtual request reduce(pith::cuda_executor const& exec, pith::element_kind kind, void* x, std::size_t n,
                         pith::reduction how) = 0;
};
static_assert(pith::communicator<device_communicator, pith::cuda_executor> &&
              pith::calls_of<device_communicator, pith::cuda_executor>.all_to_all);

}  // namespace pith_torch
