// tests/exchange/bucket_fit_test.cpp — buckets that end early, beside all other ones.
#include <pith/exchange/detail/bucket_fit.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using pith::detail::bucket_limits;
using pith::detail::bucket_list;
using pith::detail::buckets_ending_by;
using pith::detail::buckets_of;
using pith::detail::end_of;
using pith::detail::fit_buckets;
using pith::detail::ready_order;
using pith::detail::tensor_times;
using pith::detail::times_of_all;

namespace {

using bucket = bucket_list::value_type;
constexpr auto no_limit = std::numeric_limits<std::size_t>::max();

/// Calls f(layout) for each way to lay out tensors, in any order of buckets, each of any tensors.
template <class F>
void for_each_layout(std::size_t tensor, std::size_t tensors, bucket_list& layout, F const& f) {
  if (tensor == tensors) return f(layout);
  for (std::size_t b = 0; b < layout.size(); ++b) {
    layout[b].push_back(tensor);
    for_each_layout(tensor + 1, tensors, layout, f);
    layout[b].pop_back();
  }
  for (std::size_t b = 0; b <= layout.size(); ++b) {
    layout.insert(layout.begin() + static_cast<std::ptrdiff_t>(b), bucket{tensor});
    for_each_layout(tensor + 1, tensors, layout, f);
    layout.erase(layout.begin() + static_cast<std::ptrdiff_t>(b));
  }
}

/// A link that moves one unit of one bucket in each tick, the first that is not done; the tick in which all is done.
std::int64_t simulated_end(bucket_list const& layout, std::vector<tensor_times> const& times) {
  std::int64_t now = 0;
  for (auto const& b : layout) {
    auto const is_ready = [&] { return std::ranges::all_of(b, [&](auto i) { return times[i].ready <= now; }); };
    while (!is_ready()) ++now;
    for (auto const i : b) {
      for (std::int64_t unit = 0; unit < times[i].transfer; ++unit) ++now;
    }
  }
  return now;
}

/// Calls f(layout) for each way to cut an order of tensors.
template <class F>
void for_each_cut(std::vector<std::size_t> const& order, F const& f) {
  for (unsigned cuts = 0; cuts < 1u << (order.size() - 1); ++cuts) {
    auto layout = bucket_list{{order[0]}};
    for (std::size_t i = 1; i < order.size(); ++i) {
      if ((cuts >> (i - 1) & 1u) != 0) layout.emplace_back();
      layout.back().push_back(order[i]);
    }
    f(layout);
  }
}

std::vector<tensor_times> draw_times(std::mt19937& bits, std::size_t tensors) {
  auto times = std::vector<tensor_times>();
  auto const below = [&](unsigned n) { return static_cast<std::int64_t>(bits() % n); };
  for (std::size_t i = 0; i < tensors; ++i) times.push_back({below(12), below(8)});
  return times;
}

bool fits(bucket const& b, std::vector<std::size_t> const& bytes, std::size_t most) {
  std::size_t all = 0, largest = 0;
  for (auto const i : b) all += bytes[i], largest = std::max(largest, bytes[i]);
  return all <= most || all == largest;
}

bool is_partition(bucket_list const& layout, std::size_t tensors) {
  auto all = bucket();
  for (auto const& b : layout) all.insert(all.end(), b.begin(), b.end());
  std::ranges::sort(all);
  auto expected = pith::detail::backward_order(tensors);
  std::ranges::reverse(expected);
  return all == expected;
}

}  // namespace

TEST_CASE("the end of a layout is that of a link that moves one bucket after another") {
  auto bits = std::mt19937(1);
  for (unsigned run = 0; run < 20; ++run) {
    auto const times = draw_times(bits, 4);
    auto layout = bucket_list();
    for_each_layout(0, 4, layout, [&](auto const& l) { REQUIRE(end_of(l, times) == simulated_end(l, times)); });
  }
}

TEST_CASE("no layout that ends by then has fewer buckets, whatever its order and its tensors") {
  auto bits = std::mt19937(2);
  for (unsigned run = 0; run < 200; ++run) {
    auto const tensors = 1 + run % 5u;
    auto const times = draw_times(bits, tensors);
    auto const end = static_cast<std::int64_t>(bits() % 40);
    auto fewest = no_limit;
    auto layout = bucket_list();
    for_each_layout(0, tensors, layout, [&](auto const& l) {
      if (end_of(l, times) <= end) fewest = std::min(fewest, l.size());
    });
    auto const found =
        buckets_ending_by(end, ready_order(times), times, std::vector<std::size_t>(tensors, 1), no_limit);
    CHECK(found.size() == (fewest == no_limit ? 0 : fewest));
    if (found.empty()) continue;
    CHECK(end_of(found, times) <= end);
    CHECK(is_partition(found, tensors));
  }
}

TEST_CASE("fit_buckets finds the cut within the limits that ends earliest with the fewest buckets") {
  auto bits = std::mt19937(3);
  for (unsigned run = 0; run < 300; ++run) {
    auto const tensors = 1 + run % 9u;
    auto const times = draw_times(bits, tensors);
    auto bytes = std::vector<std::size_t>();
    for (unsigned i = 0; i < tensors; ++i) bytes.push_back(bits() % 5);
    auto const others = bits() % 12;
    auto const limits = bucket_limits{bits() % (others + 1), others};
    auto const most = buckets_of(ready_order(times), bytes, limits).size();
    auto earliest = std::numeric_limits<std::int64_t>::max();
    auto fewest = no_limit;
    for_each_cut(ready_order(times), [&](bucket_list const& l) {
      auto const is_within = [&](bucket const& b) { return fits(b, bytes, others); };
      if (l.size() > most || !std::ranges::all_of(l, is_within)) return;
      auto const end = end_of(l, times);
      if (end > earliest || (end == earliest && l.size() >= fewest)) return;
      earliest = end;
      fewest = l.size();
    });
    auto const found = fit_buckets(times, bytes, limits);
    CHECK(end_of(found, times) == earliest);
    CHECK(found.size() == fewest);
    CHECK(is_partition(found, tensors));
  }
}

TEST_CASE("a tied embedding that comes last holds back nothing") {
  // Two layers between an embedding that is also the head: its gradient is ready last, wherever it lies.
  auto const times = std::vector<tensor_times>{{10, 20}, {20, 10}, {60, 50}};
  CHECK(end_of({{2}, {1}, {0}}, times) == 140);
  CHECK(fit_buckets(times, {4, 4, 4}, {4, 8}) == bucket_list{{0, 1}, {2}});
  CHECK(end_of({{0, 1}, {2}}, times) == 110);
}

TEST_CASE("gradients that are ready at once travel as backward makes them") {
  CHECK(fit_buckets({{5, 1}, {5, 1}, {5, 1}}, {4, 4, 4}, {4, 4}) == bucket_list{{2}, {1}, {0}});
  CHECK(fit_buckets({}, {}, {4, 4}).empty());
  CHECK(fit_buckets({{7, 0}}, {0}, {0, 0}) == bucket_list{{0}});
}

TEST_CASE("times are those of the slowest backward and of the rank that waits least for others") {
  CHECK(times_of_all({{3, 9}, {8, 8}, {5, 4}, {2, 10}}, 2) == std::vector<tensor_times>{{5, 4}, {8, 8}});
  CHECK(times_of_all({}, 0).empty());
}

TEST_CASE("times of damaged messages are cut") {
  auto const huge = std::numeric_limits<std::int64_t>::max(), low = std::numeric_limits<std::int64_t>::min();
  auto const times = times_of_all({{huge, huge}, {low, low}, {huge, huge}, {low, huge}}, 2);
  CHECK(times == std::vector<tensor_times>{{huge / 3, huge / 3}, {0, 0}});
  CHECK(is_partition(fit_buckets(times, {1, 1}, {1, 1}), 2));
}
