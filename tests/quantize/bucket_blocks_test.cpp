// tests/quantize/bucket_blocks_test.cpp — blocks and tiles against positions that are found by division.
#include <pith/quantize/detail/bucket_blocks.hpp>

#include <doctest/doctest.h>

#include <cstdint>

namespace {

constexpr std::uint64_t sizes[] = {1, 7, 511, 512, 513, 5000, 16384, 16385, 70001};
constexpr std::uint64_t buckets[] = {0, 8, 24, 128, 512, 520, 1024, 5000, 16384, 40000};

/// Calls f(blocks, n) for each size, bucket size and span.
template <class F>
void for_each_case(F const& f) {
  for (auto const n : sizes) {
    for (auto const bucket : buckets) {
      for (std::uint32_t const span : {512u, 2048u}) {
        CAPTURE(n);
        CAPTURE(bucket);
        CAPTURE(span);
        f(pith::detail::blocks_of(n, bucket, span), n);
      }
    }
  }
}

}  // namespace

TEST_CASE("blocks cover the tensor in order, and begin in their buckets") {
  for_each_case([](auto const& blocks, std::uint64_t n) {
    std::uint64_t end = 0;
    for (std::uint64_t b = 0; b < blocks.count(); ++b) {
      auto const run = blocks.at(b);
      REQUIRE(run.first == end);
      REQUIRE(run.bucket == run.first / blocks.bucket);
      REQUIRE(run.count > 0);
      REQUIRE(run.count <= blocks.span);
      end += run.count;
    }
    CHECK(end == n);
  });
}

TEST_CASE("tiles cover the tensor in order, some of the last bucket's without elements") {
  for_each_case([](auto const& blocks, std::uint64_t n) {
    std::uint64_t end = 0;
    for (std::uint64_t t = 0; t < blocks.buckets() * blocks.tiles(); ++t) {
      auto const run = blocks.tile_at(t);
      REQUIRE(run.bucket == t / blocks.tiles());
      if (run.count > 0) REQUIRE(run.first == end);
      end += run.count;
    }
    CHECK(end == n);
  });
}
