// tests/core/checksum_test.cpp — the payloads that the checksum distinguishes.
#include <pith/core/checksum.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace {

/// Random bytes that lie at a multiple of 8.
std::vector<std::byte> random_bytes(std::size_t n, std::uint64_t seed) {
  auto random = std::mt19937_64(seed);
  auto bytes = std::vector<std::byte>(n);
  for (auto& b : bytes) b = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

std::uint64_t sum_of(std::vector<std::byte> const& bytes) { return pith::checksum(pith::span<std::byte const>(bytes)); }

}  // namespace

TEST_CASE("the checksum of known bytes is known") {
  auto bytes = std::vector<std::byte>(40000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  auto const of = [&](std::size_t n) { return pith::checksum({bytes.data(), n}); };
  // From tests/wire/decode.py.
  CHECK(of(0) == 0);
  CHECK(of(1) == 0x128b2a1d5eeaeb85u);
  CHECK(of(8) == 0x3c3b49fcb6584cbcu);
  CHECK(of(63) == 0x446cb6fcaaf78eefu);
  CHECK(of(64) == 0xef56d84250bc3d11u);
  CHECK(of(1000) == 0xc0f0d1f226d975a9u);
  CHECK(of(40000) == 0x63a92ca5cc4842aeu);
}

TEST_CASE("every change within an aligned word is seen") {
  auto random = std::mt19937_64(2);
  for (std::size_t const n : {1u, 7u, 8u, 9u, 63u, 64u, 65u, 500u, 16383u, 16384u, 16385u, 40001u}) {
    CAPTURE(n);
    auto bytes = random_bytes(n, n);
    auto const whole = sum_of(bytes);
    for (int trial = 0; trial < 200; ++trial) {
      auto changed = bytes;
      auto const word = random() % n / 8 * 8;
      for (auto i = word; i < std::min(n, word + 8); ++i) changed[i] = static_cast<std::byte>(random() & 0xff);
      CHECK((sum_of(changed) == whole) == (changed == bytes));
    }
  }
}

TEST_CASE("bytes in another order or of another length have another checksum") {
  auto seen = std::set<std::uint64_t>();
  auto const bytes = random_bytes(3 * 16384, 3);
  for (std::size_t const shift : {0u, 1u, 4u, 8u, 16u, 64u, 128u, 16384u, 32768u}) {
    auto turned = bytes;
    std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(shift), turned.end());
    CHECK(seen.insert(sum_of(turned)).second);
  }
  auto swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 8, swapped.begin() + 64);
  CHECK(seen.insert(sum_of(swapped)).second);
  for (std::size_t const n : {0u, 1u, 2u, 8u, 63u, 64u, 65u, 1000u, 16384u, 16385u, 32768u}) {
    CHECK(seen.insert(sum_of(std::vector<std::byte>(n))).second);  // zeros alone
  }
}

TEST_CASE("two flipped bits are seen wherever they are") {
  auto bytes = random_bytes(192, 4);
  auto seen = std::set<std::uint64_t>{sum_of(bytes)};
  auto const flip = [&](std::size_t bit) { bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8); };
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < 64 * 8; i += 3) {
    flip(i);
    for (std::size_t j = i + 1; j < 192 * 8; ++j) {
      flip(j);
      seen.insert(sum_of(bytes));
      flip(j);
      ++pairs;
    }
    flip(i);
  }
  CHECK(seen.size() == pairs + 1);
}

TEST_CASE("an executor computes the same checksum in its own memory") {
  for (std::size_t const n : {0u, 5u, 16384u, 16385u, 300000u}) {
    auto const bytes = random_bytes(n, n + 1);
    auto memory = std::vector<std::byte>(pith::checksum_scratch_bytes(pith::seq, n) + 128);
    auto ws = pith::workspace<>(memory);
    std::uint64_t sum = 1;
    pith::checksum_into(pith::seq, &sum, pith::span<std::byte const>(bytes), ws);
    CHECK(sum == sum_of(bytes));
  }
}
