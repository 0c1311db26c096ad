// tests/exchange/buckets_test.cpp — which tensors travel together, and when they may.
#include <pith/exchange/detail/buckets.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

using pith::detail::backward_order;
using pith::detail::bucket_limits;
using pith::detail::bucket_list;
using pith::detail::buckets_of;
using pith::detail::limits_for;
using pith::detail::ready_buckets;

namespace {

constexpr auto mebibyte = std::size_t{1} << 20;

/// Of tensors of so many bytes, the last one first.
bucket_list split(std::vector<std::size_t> const& bytes, bucket_limits limits) {
  return buckets_of(backward_order(bytes.size()), bytes, limits);
}
bucket_list split(std::vector<std::size_t> const& bytes, std::size_t most) { return split(bytes, {most, most}); }

}  // namespace

TEST_CASE("buckets are filled from the last tensor on") {
  CHECK(split({1, 2, 3, 4}, 7) == bucket_list{{2, 3}, {0, 1}});
  CHECK(split({1, 2, 3, 4}, 5) == bucket_list{{3}, {1, 2}, {0}});
  CHECK(split({1, 2, 3, 4}, std::numeric_limits<std::size_t>::max()) == bucket_list{{0, 1, 2, 3}});
}

TEST_CASE("a tensor that is larger than a bucket has one of its own") {
  CHECK(split({1, 100, 1}, 2) == bucket_list{{2}, {1}, {0}});
  CHECK(split({100}, 8) == bucket_list{{0}});
  CHECK(split({3, 2, 1}, 0) == bucket_list{{2}, {1}, {0}});
}

TEST_CASE("tensors of no elements join any bucket") {
  CHECK(split({0, 5, 0}, 5) == bucket_list{{0, 1, 2}});
  CHECK(split({0, 0}, 0) == bucket_list{{0, 1}});
  CHECK(split({}, 8).empty());
}

TEST_CASE("the first bucket has a limit of its own") {
  CHECK(split({4, 4, 1, 1, 1}, {2, 8}) == bucket_list{{3, 4}, {1, 2}, {0}});
  CHECK(split({4, 4, 9}, {2, 8}) == bucket_list{{2}, {0, 1}});
}

TEST_CASE("tensors may be filled in any order") {
  CHECK(buckets_of({1, 3, 0, 2}, {1, 1, 1, 1}, {1, 2}) == bucket_list{{1}, {0, 3}, {2}});
}

TEST_CASE("default limits make about eight buckets of 1 to 25 MiB") {
  auto const limits = [](std::size_t bytes) {
    auto const [first, others] = limits_for(bytes, {}, false);
    return std::pair(first, others);
  };
  CHECK(limits(0) == std::pair<std::size_t, std::size_t>(0, 0));
  CHECK(limits(2 * mebibyte - 1) == std::pair(2 * mebibyte - 1, 2 * mebibyte - 1));  // one bucket
  CHECK(limits(2 * mebibyte) == std::pair(mebibyte / 4, mebibyte));
  CHECK(limits(80 * mebibyte) == std::pair(10 * mebibyte / 4, 10 * mebibyte));
  CHECK(limits(1000 * mebibyte) == std::pair(25 * mebibyte / 4, 25 * mebibyte));
}

TEST_CASE("default limits on a device do not depend on the model's size") {
  for (auto const bytes : {2 * mebibyte, 80 * mebibyte, 1000 * mebibyte}) {
    auto const [first, others] = limits_for(bytes, {}, true);
    CHECK(first == 25 * mebibyte / 4);
    CHECK(others == 25 * mebibyte);
  }
  CHECK(limits_for(2 * mebibyte - 1, {}, true).first == 2 * mebibyte - 1);
}

TEST_CASE("an explicit limit applies to all buckets, including the first") {
  for (auto const is_on_device : {false, true}) {
    auto const [first, others] = limits_for(80 * mebibyte, 7, is_on_device);
    CHECK(first == 7);
    CHECK(others == 7);
  }
}

TEST_CASE("a bucket is ready when all of its tensors are, in any order") {
  auto ready = ready_buckets({{2, 3}, {0, 1}}, 4);
  ready.begin();
  ready.add(0), ready.add(3), ready.add(1);
  CHECK_FALSE(ready.has(0));
  CHECK(ready.has(1));
  CHECK_THROWS_AS(ready.add(3), std::invalid_argument);
  CHECK_FALSE(ready.has(0));
  ready.add_rest();
  CHECK(ready.has(0));
  ready.begin();
  CHECK_FALSE(ready.has(1));
}

TEST_CASE("buckets need not be neighbours, and others may follow") {
  auto ready = ready_buckets({{0, 3}, {1, 2}}, 4);
  ready.begin();
  ready.add(3), ready.add(0);
  CHECK(ready.has(0));
  CHECK_FALSE(ready.has(1));
  ready.set_layout({{1}, {0, 2, 3}});
  CHECK(ready.bucket_of(1) == 0);
  CHECK(ready.bucket_of(3) == 1);
  ready.begin();
  ready.add(1);
  CHECK(ready.has(0));
  CHECK_FALSE(ready.has(1));
}

TEST_CASE("the ready time of a gradient is kept until the gradient is ready again") {
  auto ready = ready_buckets({{0}, {1}}, 2);
  ready.begin();
  ready.add(1);
  ready.add(0);
  CHECK(ready.times()[1].count() >= 0);
  CHECK(ready.times()[0] >= ready.times()[1]);
  auto const first = ready.times()[1];
  ready.begin();
  CHECK(ready.times()[1] == first);
}

TEST_CASE("a wait for a bucket ends when the bucket is ready, and returns false when the step is cancelled") {
  auto ready = ready_buckets({{1}, {0}}, 2);
  ready.begin();
  bool has_second = true;
  auto waits = std::thread([&] {
    static_cast<void>(ready.wait_for(0));
    has_second = ready.wait_for(1);
  });
  ready.add(1);
  ready.cancel();
  waits.join();
  CHECK_FALSE(has_second);
  CHECK_FALSE(ready.wait_for(0));  // what is ready is of no use in a step that is given up
}
