// tests/benchmarks/yardstick_test.cpp — the yardstick reads and writes what it says, and rounds are fair.
#include "../../benchmarks/yardstick.hpp"

#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace {

constexpr std::size_t bytes = 64 * 1024, words = bytes / 8;

}  // namespace

TEST_CASE("reading sees every word that was written") {
  auto const memory = bench::yardstick(pith::seq, bytes, 3);
  for (std::size_t set = 0; set < 3; ++set) memory.write(set);
  for (std::size_t set = 0; set < 3; ++set) {
    memory.read(set);
    CHECK(memory.sum() == words * memory.word(set));
  }
}

TEST_CASE("a quantile is the time below which its share lies") {
  CHECK(bench::quantile({5, 1, 4, 2, 3}, 0.5) == 3);
  CHECK(bench::quantile({5, 1, 4, 2, 3}, 0.1) == 1);
  CHECK(bench::quantile({7}, 0.5) == 7);
}

TEST_CASE("all sets of buffers together are larger than the cache") {
  for (std::size_t const size : {std::size_t{1} << 14, std::size_t{1} << 24, std::size_t{1} << 34}) {
    CHECK(bench::sets_for(size) >= 8);
    CHECK(bench::sets_for(size) * size > bench::last_level_cache());
  }
}

TEST_CASE("blocks do not overlap, and large ones are aligned to their pages within the allocation") {
  auto const blocks = bench::rotated<float, pith::seq_executor>(pith::seq, bench::huge_page / 4 + 1, 2);
  auto const distance = blocks[1].data() - blocks[0].data();
  CHECK(distance == bench::huge_page / 2);
  CHECK(blocks[0].size() == bench::huge_page / 4 + 1);
}

TEST_CASE("interleave runs each thing once per round after its preparation, and each call uses the next buffer set") {
  auto calls = std::vector<std::size_t>(), sets = calls;
  auto prepared = std::vector<int>(3);
  auto things = std::vector<bench::thing>();
  for (std::size_t i = 0; i < 3; ++i) {
    things.push_back({[&calls, &sets, &prepared, i](std::size_t set) {
                        CHECK(prepared[i]-- == 1);
                        calls.push_back(i);
                        sets.push_back(set);
                      },
                      [&prepared, i](std::size_t) { ++prepared[i]; }});
  }
  CHECK(bench::interleave(things, 5, 4).size() == 3);
  REQUIRE(calls.size() == 3 * (1 + 4));
  for (std::size_t call = 0; call < calls.size(); ++call) {
    CHECK(sets[call] == call % 5);
    if (call % 3 == 2) CHECK(std::set{calls[call - 2], calls[call - 1], calls[call]}.size() == 3);
  }
}

TEST_CASE("the bound and the fraction of memcpy follow their formulas") {
  auto const memory = bench::rates{100, {4, 4}, {1, 1}, {2, 2}};
  CHECK(memory.bound({100, 0}) == 1);
  CHECK(memory.bound({50, 200}) == 4.5);
  CHECK(memory.of_memcpy({100, 100}, 4) == 1);
  CHECK(memory.of_memcpy({100, 0}, 4) == 0.5);
  CHECK(memory.copied(2) == 50);
}
