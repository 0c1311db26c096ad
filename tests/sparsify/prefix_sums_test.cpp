// tests/sparsify/prefix_sums_test.cpp — sums of counts before each, and the digit at a rank.
#include <pith/sparsify/detail/digits.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

using pith::detail::digit_bins;
using pith::detail::digits;

namespace {

std::vector<std::uint32_t> random_counts(std::size_t n, std::uint64_t seed) {
  auto random = std::mt19937_64(seed);
  auto counts = std::vector<std::uint32_t>(n);
  for (auto& c : counts) c = static_cast<std::uint32_t>(random() % 5);
  return counts;
}

}  // namespace

TEST_CASE("prefix_sums gives each count the sum of the counts before it and returns the total") {
  for (std::size_t const n : {0u, 1u, 2u, 255u, 256u, 257u, 1000u}) {
    CAPTURE(n);
    auto const counts = random_counts(n, n + 1);
    auto expected = std::vector<std::uint32_t>(), before = std::vector<std::uint32_t>(n, 99);
    std::uint32_t sum = 0;
    for (auto const c : counts) {
      expected.push_back(sum);
      sum += c;
    }
    auto fast = pith::detail::prefix_memory();
    auto const total = pith::detail::prefix_sums(
        pith::serial_team(), fast, static_cast<std::uint32_t>(n), [&](auto i) { return counts[i]; },
        [&](auto i, auto sum_before, auto own) {
          CHECK(own == counts[i]);
          before[i] = sum_before;
        });
    CHECK(total == sum);
    CHECK(before == expected);
  }
}

TEST_CASE("digits of a key put together are the key") {
  auto const check = [](auto key) {
    using word = decltype(key);
    auto prefix = word{0};
    for (unsigned round = 0; round < digits<word>::rounds; ++round) {
      auto const digit = pith::detail::digit_of<word>(round, prefix);
      CHECK(digit.begins(key));
      CHECK(digit(key) < digit_bins);
      prefix = digit.followed_by(digit(key));
    }
    CHECK(prefix == key);
  };
  check(std::uint32_t{0x7fffffff});
  check(std::uint32_t{0x12345678});
  check(std::uint64_t{0x7fffffffffffffff});
  check(std::uint64_t{0x123456789abcdef0});
}

TEST_CASE("the digit at a rank is found by counting down") {
  auto bins = random_counts(digit_bins, 3);
  std::uint32_t rank = 1;
  for (std::uint32_t digit = digit_bins; digit-- > 0;) {
    for (std::uint32_t own = 1; own <= bins[digit]; ++own, ++rank) {
      if (rank % 97 != 0) continue;
      auto fast = pith::detail::digit_memory();
      pith::detail::find_digit(pith::serial_team(), fast, bins.data(), rank);
      CHECK(fast.digit == digit);
      CHECK(fast.rank == own);
    }
  }
}
