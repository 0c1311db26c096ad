// tests/core/random_test.cpp — Philox against its published vectors, and what a draw depends on.
#include <pith/core/draws.hpp>
#include <pith/core/shape.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <vector>

namespace {

using words = std::array<std::uint32_t, 4>;

constexpr words words_of(pith::random_block b) { return {b.word[0], b.word[1], b.word[2], b.word[3]}; }

constexpr words philox(words c, std::array<std::uint32_t, 2> k) {
  return words_of(pith::philox4x32_10({{c[0], c[1], c[2], c[3]}}, {{k[0], k[1]}}));
}

constexpr words philox_7(words c, std::array<std::uint32_t, 2> k) {
  return words_of(pith::philox4x32_7({{c[0], c[1], c[2], c[3]}}, {{k[0], k[1]}}));
}

constexpr std::uint32_t ones = 0xffffffffu;

// Random123, kat_vectors.
static_assert(philox({}, {}) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox({ones, ones, ones, ones}, {ones, ones}) == words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
static_assert(philox_7({}, {}) == words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
static_assert(philox_7({ones, ones, ones, ones}, {ones, ones}) ==
              words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
static_assert(philox_7({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              words{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});

words draw(pith::encoding_id const& id, std::uint64_t block = 0) { return words_of(pith::draws(id)(block)); }

pith::encoding_id call_of(std::uint64_t const& step, unsigned tensor, unsigned rank, unsigned hop, unsigned stage) {
  return {&step,
          9,
          0,
          tensor,
          static_cast<std::uint16_t>(rank),
          static_cast<std::uint8_t>(hop),
          static_cast<std::uint8_t>(stage)};
}

}  // namespace

TEST_CASE("the published vectors come out at run time too") {
  CHECK(philox({}, {}) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) == words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a block is eight lanes of 16 bits with the low half first") {
  constexpr auto block = pith::random_block{{0x00010000, 0x00030002, 0x00050004, 0x00070006}};
  for (unsigned i = 0; i < 8; ++i) CHECK(block.lane(i) == i);
}

TEST_CASE("the counter holds block and tensor and step and rank and hop and stage") {
  std::uint64_t const step = 0xab12345678u;
  auto const id = pith::encoding_id{&step, 0x1122334455667788u, 8, 0xcdef01u, 0x2345, 5, 17};
  auto const block = (std::uint64_t{0x9a} << 32) + 6;
  auto const counter = words{7, 0x9au | 0xcdef01u << 8, 0x12345678u, 0xabu | 0x2345u << 8 | 5u << 24 | 17u << 27};
  CHECK(draw(id, block) == philox_7(counter, {0x55667788u, 0x11223344u}));
  auto earlier = id;
  earlier.is_version_0 = true;
  CHECK(draw(earlier, block) == draw(id, block));
  CHECK(words_of(pith::versioned_draws(id)(block)) == draw(id, block));
  CHECK(words_of(pith::versioned_draws(earlier)(block)) == philox(counter, {0x55667788u, 0x11223344u}));
}

TEST_CASE("every field of a call changes the draw and no two draws are alike") {
  std::uint64_t steps[] = {0, 1, 2, std::uint64_t{1} << 32, (std::uint64_t{1} << 40) - 1};
  auto calls = std::vector<pith::encoding_id>();
  for (auto const& step : steps) {
    for (unsigned const tensor : {0u, 1u, 0xffffffu}) {
      for (unsigned const rank : {0u, 1u, 255u, 256u, 0xffffu}) {
        for (unsigned const hop : {0u, 1u, 7u}) {
          for (unsigned const stage : {0u, 1u, 31u}) calls.push_back(call_of(step, tensor, rank, hop, stage));
        }
      }
    }
  }
  auto seen = std::set<words>();
  for (auto const& id : calls) {
    for (std::uint64_t const block : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
      seen.insert(draw(id, block));
  }
  CHECK(seen.size() == 3 * calls.size());
  auto other_seed = calls[0];
  other_seed.seed = 9 + (std::uint64_t{1} << 32);
  CHECK(seen.count(draw(other_seed)) == 0);
}

TEST_CASE("a chunk continues the draws of its tensor") {
  std::uint64_t const step = 3;
  auto const whole = pith::encoding_id{&step, 1, 0, 2, 0, 0, 0};
  auto chunk = whole;
  chunk.first = 4096;
  CHECK(draw(chunk, 5) == draw(whole, 4096 / 8 + 5));
}

TEST_CASE("shared calls draw alike on all ranks and stages draw apart") {
  std::uint64_t const step = 3;
  auto const here = pith::encoding_id{&step, 1, 0, 2, 0, 0, 0};
  auto const there = pith::encoding_id{&step, 1, 0, 2, 7, 0, 0};
  CHECK(draw(here) != draw(there));
  CHECK(draw(pith::shared(here)) == draw(pith::shared(there)));
  CHECK(draw(pith::next_stage(here)) != draw(here));
  CHECK(pith::next_stage(here).stage == 1);
}

TEST_CASE("a matrix has rows and columns") {
  CHECK(pith::shape{12, 3}.columns() == 4);
  CHECK(pith::shape{12}.columns() == 12);
  CHECK(pith::shape{12, 0}.columns() == 0);
}
