// pith/exchange/detail/bucket_fit.hpp — buckets whose transfers end early, from when gradients were ready and how long they travelled.
#pragma once

#include <pith/exchange/detail/buckets.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace pith::inline v0::detail {

/// Nanoseconds of a step: when a tensor's gradient was ready, and how long it travelled. Whole numbers, so that ranks
/// that start from equal ones lay out equal buckets, whatever their compilers do to sums.
struct tensor_times {
  std::int64_t ready = 0, transfer = 0;
  friend bool operator==(tensor_times const&, tensor_times const&) = default;
};

/// Of the times of all ranks' tensors, rank by rank: when a gradient was ready on the slowest rank, and how long it
/// travelled on the one that waited least for others. What is too long to be added up, or negative, was damaged; it is cut.
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

/// When the last transfer ends if buckets travel one after another, each as soon as its last gradient is ready.
inline std::int64_t end_of(bucket_list const& buckets, std::vector<tensor_times> const& times) {
  std::int64_t end = 0;
  for (auto const& b : buckets) {
    for (auto const tensor : b) end = std::max(end, times[tensor].ready);
    for (auto const tensor : b) end += times[tensor].transfer;
  }
  return end;
}

/// From the first gradient that is ready to the last one; of those that are ready at once, as backward makes them.
inline std::vector<std::size_t> ready_order(std::vector<tensor_times> const& times) {
  auto order = backward_order(times.size());
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return times[a].ready != times[b].ready ? times[a].ready < times[b].ready : a > b;
  });
  return order;
}

/// The fewest buckets in this order that have at most so many bytes and whose last transfer ends by `end`; none if there
/// are no such. A bucket that is ready at r does if r + all transfers from its first tensor on <= end.
inline bucket_list buckets_ending_by(std::int64_t end, std::vector<std::size_t> const& order,
                                     std::vector<tensor_times> const& times, std::vector<std::size_t> const& bytes,
                                     std::size_t most) {
  auto buckets = bucket_list();
  auto room = bucket_room(most);
  std::int64_t travels = 0, ready = 0;  // from here to the last tensor; all of this bucket
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

/// The fewest buckets whose last transfer ends as early as any layout's in the order in which gradients are ready, of no
/// more bytes and of no more buckets than filling them to these limits makes.
///
///   complexity  O(n log n) for the order, and a pass for each of up to 63 bisections of the time
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

}  // namespace pith::inline v0::detail
