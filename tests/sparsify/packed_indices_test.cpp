// tests/sparsify/packed_indices_test.cpp — indices of a fixed width.
#include <pith/exec/seq.hpp>
#include <pith/sparsify/packed_indices.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace {

using bytes = std::vector<std::byte>;

bytes encoded(std::uint64_t n, std::vector<std::uint32_t> indices) {
  auto const coder = pith::packed_indices();
  auto side = bytes(coder.side_bytes(n, indices.size()), std::byte{0xff});
  auto ws = pith::workspace<>(pith::span<std::byte>());
  coder.encode(pith::seq, n, indices.size(), indices.data(), pith::span<std::byte>(side), ws);
  return side;
}

std::vector<std::uint32_t> decoded(std::uint64_t n, std::uint64_t k, bytes const& side) {
  auto indices = std::vector<std::uint32_t>(k, 0xdeadbeef);
  auto ws = pith::workspace<>(pith::span<std::byte>());
  pith::packed_indices().decode(pith::seq, n, k, pith::span<std::byte const>(side), indices.data(), ws);
  return indices;
}

}  // namespace

TEST_CASE("three indices below six take three bits each") {
  CHECK(encoded(6, {1, 4, 5}) == bytes{std::byte{0b01100001}, std::byte{0b1}});
}

TEST_CASE("the width is that of the largest index") {
  auto const coder = pith::packed_indices();
  CHECK(coder.side_bytes(1, 1) == 0);
  CHECK(coder.side_bytes(2, 8) == 1);
  CHECK(coder.side_bytes(3, 8) == 2);
  CHECK(coder.side_bytes(4, 8) == 2);
  CHECK(coder.side_bytes(5, 8) == 3);
  CHECK(coder.side_bytes(0xffffffffu, 3) == 12);
  CHECK(coder.side_bytes(1000, 0) == 0);
}

TEST_CASE("indices of every width come back") {
  auto random = std::mt19937_64(71);
  for (unsigned width = 0; width < 32; ++width) {
    for (std::uint64_t const n : {(std::uint64_t{1} << width), (std::uint64_t{1} << width) + 1}) {
      for (std::size_t const k : {0u, 1u, 7u, 8u, 9u, 100u}) {
        CAPTURE(n);
        CAPTURE(k);
        auto indices = std::vector<std::uint32_t>(k);
        for (auto& i : indices) i = static_cast<std::uint32_t>(random() % n);
        if (k > 0) indices[0] = static_cast<std::uint32_t>(n - 1);
        CHECK(decoded(n, k, encoded(n, indices)) == indices);
      }
    }
  }
}

TEST_CASE("indices that are decoded from invalid bytes are limited to n - 1") {
  for (std::uint64_t const n : {1u, 2u, 3u, 5u, 100u, 129u, 65537u}) {
    auto const side = bytes(pith::packed_indices().side_bytes(n, 20), std::byte{0xff});
    for (auto const i : decoded(n, 20, side)) CHECK(i == n - 1);
  }
}
