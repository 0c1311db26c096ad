// tests/exec/cuda_team_test.cpp — the threads of a CUDA block together give the result of one thread.
#include "support/emulated_block.hpp"

#include <pith/core/detail/summation.hpp>
#include <pith/exec/detail/cuda_team.cuh>

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "support/vectors.hpp"

using namespace support;

namespace {

constexpr std::uint32_t sizes[] = {0, 1, 33, 257, 2047, 2049, 5000};

/// Normal numbers, some zeros of either sign and a NaN.
std::vector<float> values(std::uint32_t n) {
  auto x = narrow<float>(normal_vector(n, 41));
  for (std::uint32_t i = 0; i < n; i += 7) x[i] = i % 2 == 0 ? 0.0f : -0.0f;
  if (n > 40) x[40] = -std::numeric_limits<float>::quiet_NaN();
  return x;
}

/// What a team, if it is given to `use` by each of its threads, leaves in `n` words and returns.
template <class Use>
void same_by_a_block(std::uint32_t n, Use const& use) {
  CAPTURE(n);
  auto expected = std::vector<std::uint32_t>(n, 99), got = expected;
  auto const count = use(pith::serial_team(), expected.data());
  auto counts = std::vector<std::uint32_t>(emulated_threads, ~0u);
  emulate([&] { counts[threadIdx.x] = use(pith::detail::cuda_team(), got.data()); });
  CHECK(counts == std::vector<std::uint32_t>(emulated_threads, count));
  auto const end = static_cast<std::ptrdiff_t>(count);
  CHECK(std::vector<std::uint32_t>(got.begin(), got.begin() + end) ==
        std::vector<std::uint32_t>(expected.begin(), expected.begin() + end));
}

}  // namespace

TEST_CASE("compact emits the kept elements in the order of their indices") {
  for (auto const n : sizes) {
    auto const x = values(n);
    for (float const bound : {0.5f, 9.0f}) {
      auto const keep = [&](std::uint32_t i) { return x[i] > bound; };
      same_by_a_block(n, [&](auto team, std::uint32_t* to) {
        auto const emit = [=](std::uint32_t i, std::uint32_t place) { to[place] = i; };
        return team.compact(n, keep, emit);
      });
    }
  }
}

TEST_CASE("signs are those of one thread wherever the values lie") {
  for (auto const n : sizes) {
    for (std::uint32_t const skipped : {0u, 1u, 4u}) {
      CAPTURE(skipped);
      auto const x = values(n + skipped);
      same_by_a_block(n, [&](auto team, std::uint32_t* to) {
        team.pack_signs(x.data() + skipped, n, reinterpret_cast<std::uint8_t*>(to));
        return n / 32;
      });
    }
  }
}

TEST_CASE("filter_magnitude lists the elements that reach the bound in order at any alignment") {
  for (auto const n : sizes) {
    for (std::uint32_t const skipped : {0u, 1u, 4u}) {
      for (float const bound : {0.0f, 0.5f, 9.0f}) {
        CAPTURE(skipped);
        CAPTURE(bound);
        auto const x = values(n + skipped);
        same_by_a_block(n + pith::detail::kept_slack, [&](auto team, std::uint32_t* to) {
          return team.filter_magnitude(x.data() + skipped, n, pith::detail::magnitude_bits(bound), to);
        });
      }
    }
  }
}

TEST_CASE("runs are groups that make up all elements wherever they lie") {
  for (auto const n : sizes) {
    for (std::uint32_t const skipped : {0u, 1u, 4u}) {
      CAPTURE(skipped);
      auto const x = values(n + skipped);
      same_by_a_block(n, [&](auto team, std::uint32_t* to) {
        auto const* const from = x.data() + skipped;
        auto const well = pith::detail::is_vector_aligned(from) && pith::detail::is_vector_aligned(to);
        team.for_each_run(n, well, [=](std::uint32_t begin, auto const& run) {
          auto const own = run.read(from + begin);
          run.write(to + begin, [&](std::uint32_t i) { return std::bit_cast<std::uint32_t>(own[i]); });
        });
        return n;
      });
    }
  }
}

TEST_CASE("rows of a known width are merged as by one thread, whatever the merge") {
  auto const lopsided = [](double a, double b) { return a - 0.5 * b; };
  for (std::uint32_t const rows : {1u, 7u, 8u, 19u}) {
    auto const x = normal_vector(rows * 128, 6);
    same_by_a_block(2 * rows, [&](auto team, std::uint32_t* to) {
      static double lanes[64 * 19];
      auto const width = pith::detail::constant<128>();
      team.for_each(rows, [](std::uint32_t r) { lanes[64 * r] = 0; });
      pith::detail::merge_rows(
          team, lanes, rows, width, [&](std::uint32_t i) { return x[i]; }, lopsided);
      team.for_each(rows, [=](std::uint32_t r) { std::memcpy(to + 2 * r, lanes + 64 * r, sizeof(double)); });
      return 2 * rows;
    });
  }
}

TEST_CASE("is_last is true for the last of three blocks and starts again with the next three") {
  static std::uint32_t arrived;
  arrived = 0;
  same_by_a_block(6, [&](auto team, std::uint32_t* to) {
    for (std::uint32_t block = 0; block < 6; ++block) {
      auto const last = team.is_last(&arrived, 3);
      team.for_each(1u, [=](std::uint32_t) { to[block] = last ? 1 : 0; });
    }
    return 6u;
  });
}

TEST_CASE("rows and random numbers are those of one thread") {
  std::uint64_t const step = 3;
  auto const from = pith::draws(pith::encoding_id{&step, 5});
  for (auto const n : sizes) {
    for (std::uint32_t const width : {1u, 24u, 6000u}) {
      same_by_a_block(n, [&](auto team, std::uint32_t* to) {
        team.for_each_in(n, width, [=](std::uint32_t j) { return [=](std::uint32_t i) { to[i] = j * n + i; }; });
        return n;
      });
    }
    same_by_a_block(n, [&](auto team, std::uint32_t* to) {
      team.random(from, 11, n / 8, reinterpret_cast<std::uint16_t*>(to));
      return n / 8 * 4;
    });
  }
}
