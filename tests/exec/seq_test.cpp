// tests/exec/seq_test.cpp — the reference executor's memory, and its team's primitives.
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/vectors.hpp"

namespace {

template <class A>
using bits = pith::detail::bits_of<A>;

/// What a team finds by filter_magnitude, on a block of the executor's.
template <class A>
struct find_large {
  struct memory {};
  A const* x;
  std::uint32_t n;
  bits<A> least;
  std::uint32_t* kept;
  std::uint32_t* count;
  template <pith::team Team>
  void operator()(Team const& team, memory&, std::uint64_t) const {
    *count = team.filter_magnitude(x, n, least, kept);
  }
};

template <class A>
std::vector<std::uint32_t> large(pith::isa level, std::vector<A> const& x, bits<A> least) {
  auto kept = std::vector<std::uint32_t>(x.size() + pith::detail::kept_slack);
  std::uint32_t count = 0;
  auto const n = static_cast<std::uint32_t>(x.size());
  pith::seq_executor(level).for_each_block(1, find_large<A>{x.data(), n, least, kept.data(), &count});
  kept.resize(count);
  return kept;
}

/// What a team packs of signs.
template <class A>
struct pack_negatives {
  struct memory {};
  A const* x;
  std::uint32_t n;
  std::uint8_t* bytes;
  template <pith::team Team>
  void operator()(Team const& team, memory&, std::uint64_t) const {
    team.pack_signs(x, n, bytes);
  }
};

/// Adds one to a word for each element, and counts and compacts those that are odd.
struct use_primitives {
  struct memory {
    pith::detail::fast_array<std::uint32_t, 4> bins;
  };
  std::uint32_t n;
  std::uint32_t* words;
  std::uint32_t* odd;
  template <pith::team Team>
  void operator()(Team const& team, memory& fast, std::uint64_t block) const {
    auto* const bins = fast.bins.data();
    auto* const to = words;
    team.for_each(4u, [=](std::uint32_t i) { bins[i] = 0; });
    team.for_each(n, [=, &team](std::uint32_t i) {
      team.count_into(bins, i % 4, i != 4);
      team.add(to, 1);
    });
    team.for_each(4u, [=](std::uint32_t i) { to[4 + i] = bins[i]; });
    auto const is_odd = [](std::uint32_t i) { return i % 2 == 1; };
    auto* const list = odd;
    to[1] = team.count(n, is_odd);
    to[2] = team.compact(n, is_odd, [=](std::uint32_t i, std::uint32_t place) { list[place] = i; });
    if (block == 1) to[3] = team.add(to, 0);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("a team finds large magnitudes in order at every instruction set", A, float, double) {
  for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
    if (level > pith::best_isa()) continue;
    CAPTURE(pith::isa_name(level));
    for (std::size_t const n : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 31u, 32u, 33u, 100u, 2048u}) {
      auto x = support::narrow<A>(support::normal_vector(n, 31 + n));
      if (n > 8) x[3] = 0, x[5] = static_cast<A>(support::not_a_number), x[7] = static_cast<A>(-support::infinity);
      for (auto const bound : {A{0}, A{0.5}, A{-2}, static_cast<A>(support::infinity)}) {
        auto const least = pith::detail::magnitude_bits(bound);
        auto expected = std::vector<std::uint32_t>();
        for (std::uint32_t i = 0; i < n; ++i) {
          if (!(std::abs(x[i]) < std::abs(bound))) expected.push_back(i);
        }
        CHECK(large(level, x, least) == expected);
      }
      CHECK(large<A>(level, x, bits<A>{1} << (8 * sizeof(A) - 1)).empty());
    }
  }
}

TEST_CASE_TEMPLATE("pack_signs sets the bit of each element below zero at every instruction set", A, float, double) {
  for (auto const level : {pith::isa::baseline, pith::isa::avx2, pith::isa::avx512}) {
    if (level > pith::best_isa()) continue;
    CAPTURE(pith::isa_name(level));
    for (std::size_t const n : {0u, 1u, 7u, 8u, 9u, 16u, 23u, 40u, 512u, 2047u}) {
      auto x = support::narrow<A>(support::normal_vector(n, 57 + n));
      if (n > 8) x[1] = -A{0}, x[3] = static_cast<A>(-support::not_a_number), x[8] = static_cast<A>(-support::infinity);
      auto expected = std::vector<std::uint8_t>((n + 7) / 8 + 1);
      for (std::uint32_t i = 0; i < n; ++i) expected[i / 8] |= static_cast<std::uint8_t>((x[i] < 0) << i % 8);
      expected.back() = 0xa5;
      auto bytes = std::vector<std::uint8_t>(expected.size(), 0xa5);
      auto const body = pack_negatives<A>{x.data(), static_cast<std::uint32_t>(n), bytes.data()};
      pith::seq_executor(level).for_each_block(1, body);
      CHECK(bytes == expected);
    }
  }
}

TEST_CASE("a team adds over blocks and tallies and counts and compacts within one") {
  auto words = std::vector<std::uint32_t>(8);
  auto odd = std::vector<std::uint32_t>(5);
  pith::seq.for_each_block(2, use_primitives{11, words.data(), odd.data()});
  CHECK(words == std::vector<std::uint32_t>{22, 5, 5, 22, 2, 3, 3, 2});
  CHECK(odd == std::vector<std::uint32_t>{1, 3, 5, 7, 9});
}

TEST_CASE("bytes are copied and filled and none is allowed") {
  auto from = std::vector<std::byte>(5, std::byte{3});
  auto to = std::vector<std::byte>(5);
  pith::seq.copy(to.data(), from.data(), 4);
  pith::seq.fill(from.data(), std::byte{9}, 2);
  CHECK(to == std::vector<std::byte>{std::byte{3}, std::byte{3}, std::byte{3}, std::byte{3}, std::byte{0}});
  CHECK(from == std::vector<std::byte>{std::byte{9}, std::byte{9}, std::byte{3}, std::byte{3}, std::byte{3}});
  CHECK_NOTHROW(pith::seq.copy(nullptr, nullptr, 0));
  CHECK_NOTHROW(pith::seq.fill(nullptr, std::byte{1}, 0));
}
