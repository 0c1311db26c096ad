// pith/exchange/detail/pending_transfers.hpp — the pending transfers of one round.
#pragma once

#include <pith/comm/trace.hpp>
#include <pith/core/executor.hpp>
#include <pith/exchange/detail/any_request.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The requests of one round, with one `wait()` for all requests. Callers should call `test()` now and then during
/// other work, since `test()` lets the transfers make progress.
template <class Comm, executor E>
class pending_transfers {
 public:
  using request = any_request<Comm, E>;

  /// Allocates memory for the largest number of transfers of a round.
  void reserve(std::size_t most) { requests_.reserve(most); }

  void start(traced time) { time_ = std::move(time); }
  void add(request r) { requests_.push_back(std::move(r)); }

  /// Whether all transfers have completed. On a device, always returns false without a query, since the stream orders
  /// the work, and a graph may capture the stream.
  bool test(E const& exec) {
    if constexpr (host_executor<E>) {
      while (arrived_ < requests_.size() && requests_[arrived_].test(exec)) ++arrived_;
      if (arrived_ == requests_.size()) time_.end();
      return arrived_ == requests_.size();
    } else {
      return false;
    }
  }
  void wait(E const& exec) {
    for (; arrived_ < requests_.size(); ++arrived_) requests_[arrived_].wait(exec);
    clear();
  }
  /// Destroys the requests; their destructors end the transfers.
  void clear() {
    time_.end();
    requests_.clear();
    arrived_ = 0;
  }

 private:
  std::vector<request> requests_;
  std::size_t arrived_ = 0;
  traced time_{nullptr, exchange_trace::work::transfer, 0, 0};
};

}}}  // namespace pith::PITH_ABI::detail
