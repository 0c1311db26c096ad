// pith/exchange/detail/bucket_fit.hpp — tensor buckets, computed from measured times, whose last transfer ends early.
#pragma once

#include <pith/exchange/detail/buckets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A tensor's times in nanoseconds: the time from the start of a step until the gradient was ready, and the duration of
/// the transfer. The times are integers, so that ranks with equal times form equal buckets with any compiler.
struct tensor_times {
  std::int64_t ready = 0, transfer = 0;
  friend bool operator==(tensor_times const&, tensor_times const&) = default;
};

/// Combines the times of all ranks. A gradient is ready when the slowest rank has computed it. The duration of a
/// transfer is the minimum over the ranks, since a longer duration includes a wait for another rank. The function
/// clamps all times, since times from a damaged message may be negative or too large to add.
inline std::vector<tensor_times> times_of_all(std::vector<tensor_times> const& each, std::size_t tensors) {
  auto const most = std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(tensors + 1);
  auto all = std::vector<tensor_times>(tensors, {0, most});
  for (std::size_t i = 0; i < each.size(); ++i) {
    auto& t = all[i % tensors];
    t.ready = std::clamp(each[i].ready, t.ready, most);
    t.transfer = std::clamp(each[i].transfer, std::int64_t{0}, t.transfer);
  }
  return all;
}

/// The time at which the last transfer ends. The transfers of buckets run one after another. The transfer of a bucket
/// can start when the bucket's last gradient is ready.
inline std::int64_t end_of(bucket_list const& buckets, std::vector<tensor_times> const& times) {
  std::int64_t end = 0;
  for (auto const& b : buckets) {
    for (auto const tensor : b) end = std::max(end, times[tensor].ready);
    for (auto const tensor : b) end += times[tensor].transfer;
  }
  return end;
}

/// The tensors in the order in which their gradients become ready. Tensors that are ready at the same time are listed
/// from the last tensor to the first.
inline std::vector<std::size_t> ready_order(std::vector<tensor_times> const& times) {
  auto order = backward_order(times.size());
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return times[a].ready != times[b].ready ? times[a].ready < times[b].ready : a > b;
  });
  return order;
}

/// Divides the tensors, in the given order, into as few buckets as possible. Each bucket has at most `most` bytes, and
/// the last transfer ends by `end`. Returns an empty list if such buckets do not exist. The last transfer ends by `end`
/// if r + t <= end for each bucket, where r is the time at which the bucket is ready, and t is the duration of the
/// transfers of this bucket and all later buckets.
inline bucket_list buckets_ending_by(std::int64_t end, std::vector<std::size_t> const& order,
                                     std::vector<tensor_times> const& times, std::vector<std::size_t> const& bytes,
                                     std::size_t most) {
  auto buckets = bucket_list();
  auto room = bucket_room(most);
  std::int64_t travels = 0, ready = 0;  // transfer times of `tensor` and later tensors; when the bucket is ready
  for (auto i = order.size(); i-- > 0;) {
    auto const tensor = order[i];
    travels += times[tensor].transfer;
    if (buckets.empty() || !room.has(bytes[tensor]) || ready + travels > end) {
      ready = times[tensor].ready;
      if (ready + travels > end) return {};
      room = bucket_room(most);
      buckets.emplace_back();
    }
    buckets.back().push_back(tensor);
    room.take(bytes[tensor]);
  }
  std::reverse(buckets.begin(), buckets.end());
  for (auto& b : buckets) std::sort(b.begin(), b.end());
  return buckets;
}

/// Divides the tensors, in ready order, into buckets within the byte limit, so that the last transfer ends as early as
/// possible. Only divisions with at most as many buckets as `buckets_of` makes are considered. Among divisions that end
/// equally early, the result has the fewest buckets.
///
///   complexity  O(n log n) for the order of n tensors, and at most 63 bisection steps with one pass over the tensors
///               each
inline bucket_list fit_buckets(std::vector<tensor_times> const& times, std::vector<std::size_t> const& bytes,
                               bucket_limits limits) {
  auto const order = ready_order(times);
  auto const filled = buckets_of(order, bytes, limits);
  std::int64_t below = -1, end = end_of(filled, times);
  while (end - below > 1) {
    auto const middle = below + (end - below) / 2;
    auto const found = buckets_ending_by(middle, order, times, bytes, limits.others);
    (!found.empty() && found.size() <= filled.size() ? end : below) = middle;
  }
  return buckets_ending_by(end, order, times, bytes, limits.others);
}

}}}  // namespace pith::PITH_ABI::detail
