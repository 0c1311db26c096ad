// tests/sparsify/chunk_top_k_test.cpp — the largest entries of each chunk.
#include <pith/codec/chain.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/block_int.hpp>
#include <pith/sparsify/chunk_top_k.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/conform.hpp"

using namespace support;
using pith::chunk_top_k;

namespace {

/// Each chunk by itself, by top_k.
std::vector<double> chunk_by_chunk(std::vector<double> const& x, std::size_t chunk, double k) {
  auto all = std::vector<double>();
  for (std::size_t first = 0; first < x.size(); first += chunk) {
    auto const size = std::min(chunk, x.size() - first);
    auto const begin = x.begin() + static_cast<std::ptrdiff_t>(first);
    auto const part = std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(size));
    auto const kept = std::max(1.0, std::round(k * static_cast<double>(size) / static_cast<double>(chunk)));
    auto const of_part = decoded(pith::top_k(std::min(1.0, (kept + 0.5) / static_cast<double>(size))), part);
    all.insert(all.end(), of_part.begin(), of_part.end());
  }
  return all;
}

}  // namespace

TEST_CASE("chunk_top_k takes any input of any size and type") {
  conforms(chunk_top_k(1, 16));
  conforms(chunk_top_k(64));
  conforms(chunk_top_k(8192, 8192));
  conforms(chunk_top_k(4, 64) | pith::block_int<4>(32));
  conforms(pith::error_feedback(chunk_top_k(2, 100)));
}

TEST_CASE("ten numbers by hand") {
  CHECK(decoded(chunk_top_k(1, 4), {1, -8, 2, 0, 4, 6, -6, 1, 2, -3}) ==
        std::vector<double>{0, -8, 0, 0, 0, 6, 0, 0, 0, -3});
  CHECK(decoded(chunk_top_k(3, 4), {1, -8, 2, 0, 4, 6, -6, 1, 2}) == std::vector<double>{1, -8, 2, 0, 4, 6, -6, 0, 2});
}

TEST_CASE("each chunk keeps the entries that top_k keeps of the chunk alone") {
  for (std::size_t const n : {1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 20'000u}) {
    auto const x = normal_vector(n, 91);
    for (auto const chunk : {64u, 1000u, 4096u, 8192u}) {
      for (auto const k : {1u, 7u, 63u}) {
        CAPTURE(n);
        CAPTURE(chunk);
        CAPTURE(k);
        CHECK(decoded(chunk_top_k(k, chunk), x) == chunk_by_chunk(x, chunk, k));
      }
    }
  }
}

TEST_CASE("64 of 4,096 elements take 8 bits per index") {
  CHECK(pith::payload_bytes<float>(chunk_top_k(64), {4096}) == 64 * 4 + 64);
  CHECK(pith::payload_bytes<float>(chunk_top_k(64), {std::uint64_t{4096} << 10}) == 65536 * 4 + 65536);
}

TEST_CASE("the error of one chunk is at most 1 - k / chunk, and equal magnitudes reach this bound") {
  auto const codec = chunk_top_k(64);
  CHECK(codec.delta({4096}) == 1.0 / 64);
  CHECK(codec.delta({4096 + 33}) == 1.0 / 64);
  CHECK(codec.delta({4096 + 95}) == 1.0 / 95);  // 95 / 64 rounds to one entry
  CHECK(codec.delta({0}) == 1);
  auto const y = decoded(codec, std::vector<double>(4096, 1));
  CHECK(std::count(y.begin(), y.end(), 1) == 64);
}

TEST_CASE("a rate is the share of a chunk") {
  CHECK(chunk_top_k(64).at(0.5).name() == "chunk_top_k(2048,4096)");
  CHECK(chunk_top_k(64, 128).at(1e-9).name() == "chunk_top_k(1,128)");
  CHECK_THROWS_WITH_AS(chunk_top_k(64).at(2), "pith::chunk_top_k: density must be in (0, 1], got 2",
                       std::invalid_argument);
}

TEST_CASE("sizes that cannot be are refused") {
  CHECK_THROWS_WITH_AS(chunk_top_k(0), "pith::chunk_top_k: k must be in [1, 4096], the size of a chunk, got 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(chunk_top_k(65, 64), "pith::chunk_top_k: k must be in [1, 64], the size of a chunk, got 65",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(chunk_top_k(1, 0), "pith::chunk_top_k: chunk must be in [1, 8192], got 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(chunk_top_k(1, 8193), "pith::chunk_top_k: chunk must be in [1, 8192], got 8193",
                       std::invalid_argument);
}
