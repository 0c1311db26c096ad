// tests/sparsify/elias_fano_test.cpp — ascending indices by the code of Elias and Fano.
#include <pith/exec/par.hpp>
#include <pith/exec/seq.hpp>
#include <pith/sparsify/elias_fano.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using bytes = std::vector<std::byte>;
using indices = std::vector<std::uint32_t>;

auto const coder = pith::elias_fano();

auto threads() {
  static auto pool = pith::thread_pool(3);
  return pith::par(pool);
}

bytes side_of(std::uint64_t n, indices list, std::size_t misaligned_by = 0) {
  auto side = bytes(misaligned_by + coder.side_bytes(n, list.size()), std::byte{0xff});
  auto ws = pith::workspace<>(pith::span<std::byte>());
  coder.encode(pith::seq, n, list.size(), list.data(), pith::span<std::byte>(side).subspan(misaligned_by), ws);
  return bytes(side.begin() + static_cast<std::ptrdiff_t>(misaligned_by), side.end());
}

template <class E>
indices indices_on(E const& exec, std::uint64_t n, std::uint64_t k, bytes const& side) {
  auto list = indices(k, 0xdeadbeef);
  auto memory = bytes(coder.scratch_bytes(exec, n, k) + pith::detail::scratch_alignment);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  coder.decode(exec, n, k, pith::span<std::byte const>(side), list.data(), ws);
  return list;
}
indices indices_in(std::uint64_t n, std::uint64_t k, bytes const& side) { return indices_on(pith::seq, n, k, side); }

/// k different numbers below n, in ascending order.
indices drawn(std::mt19937_64& random, std::uint64_t n, std::uint64_t k) {
  auto list = indices();
  for (std::uint64_t i = 0; i < n && list.size() < k; ++i) {
    if (random() % (n - i) < k - list.size()) list.push_back(static_cast<std::uint32_t>(i));
  }
  return list;
}

double bits_per_index(std::uint64_t n, std::uint64_t k) {
  return 8.0 * static_cast<double>(coder.side_bytes(n, k)) / static_cast<double>(k);
}

/// The bits of a width, from the definition.
std::uint64_t bits_of(std::uint64_t n, std::uint64_t k, unsigned width) {
  return k * width + k + ((n - 1) >> width) + 1;
}

}  // namespace

TEST_CASE("six indices below 64 have fields of three bits and a bitmap of 14 bits") {
  // The fields are 3 4 1 0 1 7. The set bits of the bitmap are 0, 1, 4, 8, 9 and 12.
  auto const expected =
      bytes{std::byte{0b01'100'011}, std::byte{0b1'001'000'0}, std::byte{0b010011'11}, std::byte{0b01001100}};
  CHECK(side_of(64, {3, 4, 17, 40, 41, 63}) == expected);
}

TEST_CASE("the bits per index are those of the published formula") {
  CHECK(coder.side_bytes(4096, 64) == 64);
  auto const n = std::uint64_t{1} << 20;
  CHECK(bits_per_index(n, n / 10) == doctest::Approx(5.25).epsilon(0.001));
  CHECK(bits_per_index(n, n / 100) == doctest::Approx(8.56).epsilon(0.001));
  CHECK(bits_per_index(n, n / 1000) == doctest::Approx(11.95).epsilon(0.001));
  CHECK(coder.side_bytes(1000, 0) == 0);
  CHECK(coder.side_bytes(0, 0) == 0);
}

TEST_CASE("no other width needs fewer bits") {
  auto random = std::mt19937_64(72);
  for (int round = 0; round < 2000; ++round) {
    auto const n = 1 + random() % (std::uint64_t{1} << (1 + random() % 30));
    auto const k = 1 + random() % n;
    auto best = bits_of(n, k, 0);
    for (unsigned width = 1; width < 32; ++width) best = std::min(best, bits_of(n, k, width));
    CAPTURE(n);
    CAPTURE(k);
    CHECK(coder.side_bytes(n, k) == (best + 7) / 8);
    auto const ratio = static_cast<double>(n) / static_cast<double>(k);
    CHECK(static_cast<double>(best - 1) <= static_cast<double>(k) * (2 + std::log2(ratio)));
  }
}

TEST_CASE("indices of every density come back, on one thread and on several") {
  auto random = std::mt19937_64(73);
  for (std::uint64_t const n : {1u, 2u, 3u, 7u, 64u, 255u, 256u, 257u, 1000u, 4096u, 100003u}) {
    for (std::uint64_t const k :
         {std::uint64_t{0}, std::uint64_t{1}, n / 1000, n / 100, n / 10, n / 3, n / 2, n - 1, n}) {
      CAPTURE(n);
      CAPTURE(k);
      auto const list = drawn(random, n, k);
      auto const side = side_of(n, list);
      CHECK(indices_in(n, k, side) == list);
      CHECK(indices_on(threads(), n, k, side) == list);
      for (std::size_t const by : {1u, 2u, 3u}) CHECK(side_of(n, list, by) == side);
    }
  }
}

TEST_CASE("indices at both ends of a range come back") {
  for (std::uint64_t const n : {1000u, 1u << 20, 0x80000000u, 0xffffffffu}) {
    for (std::uint32_t const k : {1u, 2u, 300u}) {
      CAPTURE(n);
      CAPTURE(k);
      auto first = indices(k), last = indices(k);
      std::iota(first.begin(), first.end(), 0u);
      std::iota(last.begin(), last.end(), static_cast<std::uint32_t>(n - k));
      CHECK(indices_in(n, k, side_of(n, first)) == first);
      CHECK(indices_in(n, k, side_of(n, last)) == last);
    }
  }
}

TEST_CASE("indices that are decoded from invalid bytes are below n") {
  auto random = std::mt19937_64(74);
  for (std::uint64_t const n : {1u, 2u, 3u, 100u, 65537u, 0xffffffffu}) {
    for (std::uint64_t const k : {std::uint64_t{1}, std::min<std::uint64_t>(n, 3), std::min<std::uint64_t>(n, 2000)}) {
      CAPTURE(n);
      CAPTURE(k);
      auto side = bytes(coder.side_bytes(n, k), std::byte{0xff});
      for (auto const i : indices_in(n, k, side)) CHECK(i < n);
      for (int round = 0; round < 20; ++round) {
        for (auto& b : side) b = static_cast<std::byte>(random() & random());
        for (auto const i : indices_on(threads(), n, k, side)) CHECK(i < n);
      }
    }
  }
}

TEST_CASE("entries that the bitmap lacks become the last index") {
  auto const n = std::uint64_t{100000}, k = std::uint64_t{1000};
  auto const zeros = bytes(coder.side_bytes(n, k));
  CHECK(indices_in(n, k, zeros) == indices(k, 99999));
  CHECK(indices_on(threads(), n, k, zeros) == indices(k, 99999));
}

TEST_CASE("a bitmap has at most 2^32 - 8 bits, so fields of nearly all indices are wider") {
  constexpr std::uint64_t n = 0xffffffffu;
  CHECK(coder.side_bytes(n, 1u << 30) == std::size_t{1} << 29);  // four bits per index
  for (std::uint64_t const k : {n / 2, n / 2 + 1, n / 4 * 3, n - 9, n - 8}) {
    auto best = ~std::uint64_t{0};
    for (unsigned width = 0; width <= 32; ++width) {
      if (k + ((n - 1) >> width) + 1 <= (std::uint64_t{1} << 32) - 8) best = std::min(best, bits_of(n, k, width));
    }
    CAPTURE(k);
    CHECK(coder.side_bytes(n, k) == (best + 7) / 8);
  }
  CHECK_THROWS_WITH_AS(coder.side_bytes(n, n),
                       "pith::elias_fano: k must be at most 2^32 - 9, got 4294967295: split the tensor",
                       std::invalid_argument);
}
