// pith/comm/buckets.hpp — which tensors of a model travel together, and whether their gradients are there.
#pragma once

#include <pith/comm/policy.hpp>
#include <pith/core/error.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

namespace pith::inline v0::detail {

/// The tensors from `first` to before `last`.
struct tensor_range {
  std::size_t first, last;
};

/// Tensors in buckets of at most `most` bytes, or of one that has more; the last tensor is in the first bucket.
inline std::vector<tensor_range> buckets_of(std::vector<tensor_spec> const& tensors, std::size_t element_bytes,
                                            std::size_t most) {
  auto buckets = std::vector<tensor_range>();
  std::size_t left = 0;
  for (auto i = tensors.size(); i-- > 0;) {
    auto const bytes = tensors[i].dims.n * element_bytes;
    if (buckets.empty() || bytes > left) {
      buckets.push_back({i, i + 1});
      left = most;
    }
    buckets.back().first = i;
    left -= std::min(left, bytes);
  }
  return buckets;
}

/// Which buckets have all their gradients. One thread says so and another one waits for it.
class ready_buckets {
 public:
  ready_buckets(std::vector<tensor_range> const& buckets, std::size_t tensors)
      : buckets_(buckets), bucket_of_(tensors), is_ready_(tensors), missing_(buckets.size()) {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      std::fill(bucket_of_.begin() + static_cast<std::ptrdiff_t>(buckets[b].first),
                bucket_of_.begin() + static_cast<std::ptrdiff_t>(buckets[b].last), b);
    }
  }

  /// A step begins, in which none is ready.
  void begin() {
    auto const lock = std::lock_guard(mutex_);
    std::fill(is_ready_.begin(), is_ready_.end(), char{0});
    for (std::size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_[b].last - buckets_[b].first;
    is_cancelled_ = false;
  }
  void require_missing(std::size_t tensor) const {
    auto const lock = std::lock_guard(mutex_);
    require_unmarked(tensor);
  }
  void add(std::size_t tensor) {
    auto const lock = std::lock_guard(mutex_);
    require_unmarked(tensor);
    mark(tensor);
  }
  void add_rest() {
    auto const lock = std::lock_guard(mutex_);
    for (std::size_t i = 0; i < is_ready_.size(); ++i) {
      if (is_ready_[i] == 0) mark(i);
    }
  }
  /// Who waits is told that no more will be ready.
  void cancel() {
    auto const lock = std::lock_guard(mutex_);
    is_cancelled_ = true;
    changed_.notify_all();
  }

  bool is_cancelled() const {
    auto const lock = std::lock_guard(mutex_);
    return is_cancelled_;
  }
  bool has(std::size_t bucket) const {
    auto const lock = std::lock_guard(mutex_);
    return missing_[bucket] == 0;
  }
  /// False if it was cancelled.
  bool wait_for(std::size_t bucket) const {
    auto lock = std::unique_lock(mutex_);
    changed_.wait(lock, [&] { return missing_[bucket] == 0 || is_cancelled_; });
    return !is_cancelled_;
  }
  /// Waits as long as a transfer may do without being asked how it goes.
  bool comes_soon(std::size_t bucket) const {
    auto lock = std::unique_lock(mutex_);
    return changed_.wait_for(lock, std::chrono::microseconds(50), [&] { return missing_[bucket] == 0; });
  }

 private:
  void require_unmarked(std::size_t tensor) const {
    require(is_ready_[tensor] == 0, "gradient_exchange::ready: tensor ", tensor,
            " must be ready once in a step, got a second call");
  }
  void mark(std::size_t tensor) {
    is_ready_[tensor] = 1;
    if (--missing_[bucket_of_[tensor]] == 0) changed_.notify_all();
  }

  std::vector<tensor_range> buckets_;
  std::vector<std::size_t> bucket_of_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<char> is_ready_;
  std::vector<std::size_t> missing_;
  bool is_cancelled_ = false;
};

}  // namespace pith::inline v0::detail
