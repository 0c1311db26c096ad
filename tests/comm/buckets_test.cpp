// tests/comm/buckets_test.cpp — which tensors travel together, and when they may.
#include <pith/comm/buckets.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

using pith::detail::buckets_of;
using pith::detail::ready_buckets;

namespace {

using ranges = std::vector<std::pair<std::size_t, std::size_t>>;

/// Of tensors of so many floats.
ranges split(std::vector<std::uint64_t> const& sizes, std::size_t most) {
  auto tensors = std::vector<pith::tensor_spec>();
  for (auto n : sizes) tensors.push_back({"", {n}});
  auto found = ranges();
  for (auto const& [first, last] : buckets_of(tensors, 4, most)) found.emplace_back(first, last);
  return found;
}

}  // namespace

TEST_CASE("buckets are filled from the last tensor on") {
  CHECK(split({1, 2, 3, 4}, 28) == ranges{{2, 4}, {0, 2}});
  CHECK(split({1, 2, 3, 4}, 23) == ranges{{3, 4}, {1, 3}, {0, 1}});
  CHECK(split({1, 2, 3, 4}, std::numeric_limits<std::size_t>::max()) == ranges{{0, 4}});
}

TEST_CASE("a tensor that is larger than a bucket has one of its own") {
  CHECK(split({1, 100, 1}, 8) == ranges{{2, 3}, {1, 2}, {0, 1}});
  CHECK(split({100}, 8) == ranges{{0, 1}});
  CHECK(split({3, 2, 1}, 0) == ranges{{2, 3}, {1, 2}, {0, 1}});
}

TEST_CASE("tensors of no elements join any bucket") {
  CHECK(split({0, 5, 0}, 20) == ranges{{0, 3}});
  CHECK(split({0, 0}, 0) == ranges{{0, 2}});
  CHECK(split({}, 8).empty());
}

TEST_CASE("a bucket is ready when all of its tensors are, in any order") {
  auto ready = ready_buckets({{2, 4}, {0, 2}}, 4);
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

TEST_CASE("who waits for a bucket hears of it, or that it will not come") {
  auto ready = ready_buckets({{1, 2}, {0, 1}}, 2);
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
