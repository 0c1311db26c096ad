// pith/exchange/detail/buckets.hpp — the tensor buckets of a model, and the readiness of their gradients.
#pragma once

#include <pith/core/error.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The tensor buckets in the order of their transfers. Each bucket is an ascending list of tensor indices.
using bucket_list = std::vector<std::vector<std::size_t>>;

/// The largest numbers of gradient bytes in the first bucket and in each other bucket. Only a bucket with a single
/// tensor may exceed its limit.
struct bucket_limits {
  std::size_t first, others;
};

/// If `requested` is set, returns it as the limit of all buckets. Otherwise, returns the default of
/// exchange_options::bucket_bytes. For a model of at least 2 MiB, the default limit of the first bucket is smaller, so
/// that this bucket is sent early. Latency dominates transfers below 1 MiB, and buckets above 25 MiB need much memory.
/// On a device, a bucket also costs its launches (docs/engines.md), so buckets have the largest default limit.
inline bucket_limits limits_for(std::size_t bytes, std::optional<std::size_t> requested, bool is_on_device) {
  constexpr std::size_t usual = 8, least = std::size_t{1} << 20, most = std::size_t{25} << 20;
  if (requested) return {*requested, *requested};
  if (bytes < 2 * least) return {bytes, bytes};
  auto const share = is_on_device ? most : std::clamp(bytes / usual, least, most);
  return {share / 4, share};
}

/// The remaining capacity of a bucket that is filled tensor by tensor.
class bucket_room {
 public:
  explicit bucket_room(std::size_t most) : most_(most) {}

  bool has(std::size_t bytes) const { return bytes == 0 || used_ == 0 || bytes <= most_ - std::min(used_, most_); }
  void take(std::size_t bytes) { used_ += bytes; }

 private:
  std::size_t most_, used_ = 0;
};

/// Fills buckets one after another with the tensors in the given order.
inline bucket_list buckets_of(std::vector<std::size_t> const& order, std::vector<std::size_t> const& bytes,
                              bucket_limits limits) {
  auto buckets = bucket_list();
  auto room = bucket_room(limits.first);
  for (auto const tensor : order) {
    if (buckets.empty() || !room.has(bytes[tensor])) {
      room = bucket_room(buckets.empty() ? limits.first : limits.others);
      buckets.emplace_back();
    }
    buckets.back().push_back(tensor);
    room.take(bytes[tensor]);
  }
  for (auto& b : buckets) std::sort(b.begin(), b.end());
  return buckets;
}

/// The order in which the backward pass computes gradients: from the last tensor to the first.
inline std::vector<std::size_t> backward_order(std::size_t tensors) {
  auto order = std::vector<std::size_t>(tensors);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

/// Records which gradients are ready, and the times at which they became ready. One thread marks gradients as ready;
/// another thread waits until all gradients of a bucket are ready.
class ready_buckets {
 public:
  using clock = std::chrono::steady_clock;
  using duration = std::chrono::nanoseconds;

  ready_buckets(bucket_list const& buckets, std::size_t tensors)
      : bucket_of_(tensors), is_ready_(tensors), times_(tensors) {
    set_layout(buckets);
  }

  /// Replaces the division of the tensors into buckets. Call set_layout() between steps.
  void set_layout(bucket_list const& buckets) {
    sizes_.clear();
    for (auto const& b : buckets) {
      for (auto const tensor : b) bucket_of_[tensor] = sizes_.size();
      sizes_.push_back(b.size());
    }
    missing_ = sizes_;
  }
  std::size_t bucket_of(std::size_t tensor) const { return bucket_of_[tensor]; }

  /// Begins a step, in which no gradient is ready yet.
  void begin() {
    auto const lock = std::lock_guard(mutex_);
    std::fill(is_ready_.begin(), is_ready_.end(), char{0});
    missing_ = sizes_;
    is_cancelled_ = false;
    begun_ = clock::now();
  }
  /// For each tensor, the time from `begin()` until its gradient was ready in the last step.
  std::vector<duration> const& times() const { return times_; }

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
  /// Wakes the waiting thread. Call `cancel()` when no further gradient will become ready.
  void cancel() {
    auto const lock = std::lock_guard(mutex_);
    is_cancelled_ = true;
    changed_.notify_all();
  }

  bool has(std::size_t bucket) const {
    auto const lock = std::lock_guard(mutex_);
    return missing_[bucket] == 0;
  }
  /// Waits until a bucket is ready; returns false after `cancel()`.
  bool wait_for(std::size_t bucket) const {
    auto lock = std::unique_lock(mutex_);
    changed_.wait(lock, [&] { return missing_[bucket] == 0 || is_cancelled_; });
    return !is_cancelled_;
  }
  /// Waits for at most the duration `most`. Returns whether the bucket is ready or `cancel()` was called.
  bool is_ready_within(duration most, std::size_t bucket) const {
    auto lock = std::unique_lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return missing_[bucket] == 0 || is_cancelled_; });
  }

 private:
  void require_unmarked(std::size_t tensor) const {
    require(is_ready_[tensor] == 0, "gradient_exchange::ready: tensor ", tensor,
            " must be ready once in a step, got a second call");
  }
  void mark(std::size_t tensor) {
    is_ready_[tensor] = 1;
    times_[tensor] = clock::now() - begun_;
    if (--missing_[bucket_of_[tensor]] == 0) changed_.notify_all();
  }

  std::vector<std::size_t> sizes_, bucket_of_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<char> is_ready_;
  std::vector<duration> times_;
  clock::time_point begun_;
  std::vector<std::size_t> missing_;
  bool is_cancelled_ = false;
};

}}}  // namespace pith::PITH_ABI::detail
