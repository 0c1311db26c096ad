// tests/exec/launch_list_test.cpp — recorded kernels of lanes become few launches, which keep the order of each lane.
#include <pith/exec/detail/launch_list.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using pith::detail::lane_table;
using pith::detail::launch_list;

namespace {

/// The kernels of a lane: a letter for each kernel. Kernel i of a lane has i + 1 blocks.
using lane_kernels = std::string;

struct body {
  std::uint32_t lane, kernel;
};

char const names[128] = {};
void const* kernel_of(char letter) { return names + letter; }
pith::detail::body_kernels kernels_of(char letter) { return {kernel_of(letter), nullptr}; }

launch_list recorded(std::vector<lane_kernels> const& lanes) {
  auto list = launch_list();
  for (std::uint32_t l = 0; l < lanes.size(); ++l) {
    list.begin_lane();
    for (std::uint32_t k = 0; k < lanes[l].size(); ++k) {
      auto const own = body{l, k};
      list.add(kernels_of(lanes[l][k]), 0, k + 1, &own, sizeof own);
    }
  }
  return list;
}

/// Runs the launches block by block. Returns the letters of the launches.
class run {
 public:
  run(std::vector<lane_kernels> lanes, std::uint64_t most_blocks = 1'000'000)
      : lanes_(std::move(lanes)), next_(lanes_.size()) {
    auto list = recorded(lanes_);
    list.merge(most_blocks);
    for (auto const& launch : list.launches()) {
      CHECK(launch.blocks <= most_blocks);
      letters += static_cast<char>(static_cast<char const*>(launch.kernels.one) - names);
      run_blocks(list, launch);
    }
    for (std::size_t l = 0; l < lanes_.size(); ++l) CHECK(next_[l] == lanes_[l].size());
  }

  std::string letters;

 private:
  void run_blocks(launch_list const& list, launch_list::launch const& launch) {
    auto const has_table = launch.lanes > 1;
    auto const* const table = has_table ? list.tables().data() + launch.table : nullptr;
    auto const* const first = reinterpret_cast<std::uint32_t const*>(table);
    for (std::uint32_t block = 0; block < launch.blocks; ++block) {
      auto const lane = has_table ? std::upper_bound(first, first + launch.lanes, block) - first - 1 : 0;
      auto own = body();
      auto const offset = static_cast<std::size_t>(lane) * lane_table::stride(sizeof own);
      auto const* const from =
          has_table ? table + lane_table::bodies_offset(launch.lanes) + offset : list.bodies().data() + launch.body;
      std::memcpy(&own, from, sizeof own);
      run_block(launch, own, block - (has_table ? first[lane] : 0));
    }
  }
  /// A lane's kernels run in their order, with all their blocks.
  void run_block(launch_list::launch const& launch, body const& own, std::uint32_t block) {
    CHECK(kernel_of(lanes_[own.lane][own.kernel]) == launch.kernels.one);
    CHECK(next_[own.lane] == own.kernel);
    if (block == own.kernel) ++next_[own.lane];
  }

  std::vector<lane_kernels> lanes_;
  std::vector<std::size_t> next_;
};

std::string launches_of(std::vector<lane_kernels> const& lanes) { return run(lanes).letters; }

}  // namespace

TEST_CASE("equal lanes have the launches of one lane") {
  for (std::size_t const count : {1u, 2u, 16u, 161u}) {
    CHECK(launches_of(std::vector<lane_kernels>(count, "abcab")) == "abcab");
    CHECK(launches_of(std::vector<lane_kernels>(count, "")) == "");
  }
}

TEST_CASE("a kernel that some lanes do not have adds one launch") {
  CHECK(launches_of({"abc", "fabc", "abc"}) == "fabc");
  CHECK(launches_of({"abc", "ac", "abc", ""}) == "abc");
  CHECK(launches_of({"abcd", "x", "abcd", "x"}) == "abcdx");
}

TEST_CASE("a launch has at most the given number of blocks") {
  auto const lanes = std::vector<lane_kernels>(5, "aab");
  CHECK(run(lanes, 6).letters.size() > 3);
  CHECK(run(lanes, 15).letters == "aab");
}

TEST_CASE("a cleared list is empty, and has one lane") {
  auto list = recorded({"abc", "abc"});
  list.clear();
  list.merge(100);
  CHECK(list.empty());
  CHECK(list.launches().empty());
  auto const own = body{0, 0};
  list.add(kernels_of('a'), 7, 1, &own, sizeof own);
  list.merge(100);
  REQUIRE(list.launches().size() == 1);
  CHECK(list.launches()[0].shared_bytes == 7);
}

TEST_CASE("random lanes run in their order") {
  auto random = std::mt19937(5);
  for (int trial = 0; trial < 200; ++trial) {
    auto lanes = std::vector<lane_kernels>(1 + random() % 9);
    std::size_t all = 0;
    for (auto& lane : lanes) {
      for (auto left = random() % 12; left > 0; --left) lane += static_cast<char>('a' + random() % 4);
      all += lane.size();
    }
    CHECK(launches_of(lanes).size() <= all);
  }
}
