// tests/reports/padding_test.cpp — sums of lengths that are no multiples of the number of ranks. The padding after the
// values is zero, even if an earlier call has written to the memory.
#include <pith/comm/reproducible_sums.hpp>
#include <pith/comm/threads.hpp>
#include <pith/exec/seq.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace {

using threads = pith::thread_communicator;

/// A communicator whose all_to_all sets `is_clear` to false if a byte after the first `used` bytes is not zero.
class watched_communicator : public threads {
 public:
  explicit watched_communicator(threads comm) : threads(comm) {}

  template <pith::executor E>
  auto all_to_all(E const& exec, pith::span<std::byte const> mine, pith::span<std::byte> all) {
    for (auto i = used; i < mine.size(); ++i) is_clear = is_clear && mine[i] == std::byte{};
    return threads::all_to_all(exec, mine, all);
  }

  static thread_local inline std::size_t used = 0;
  static thread_local inline bool is_clear = true;
};

template <class T>
void check_sum(pith::reproducible_sums<watched_communicator>& sums, std::size_t n, T value, pith::reduction how) {
  auto x = std::vector<T>(n, value);
  watched_communicator::used = n * sizeof(T);
  watched_communicator::is_clear = true;
  sums.all_reduce(pith::seq, pith::span(x), how).wait(pith::seq);
  auto const expected = how == pith::reduction::sum ? static_cast<T>(value * static_cast<T>(sums.size())) : value;
  CHECK(x == std::vector<T>(n, expected));
  CHECK(watched_communicator::is_clear);
}

}  // namespace

TEST_CASE("the padding of a reproducible sum is zero") {
  for (unsigned const ranks : {1u, 2u, 3u, 5u, 8u}) {
    pith::run_ranks(ranks, [](threads comm) {
      auto sums = pith::reproducible_sums<watched_communicator>(comm);
      for (std::size_t const n : {64u, 3u, 0u, 1u, 7u, 65u, 9u}) {
        check_sum<float>(sums, n, 0x1p100f, pith::reduction::sum);
        check_sum<std::int32_t>(sums, n, 1, pith::reduction::sum);
        check_sum<std::int8_t>(sums, n, -3, pith::reduction::max);
        check_sum<double>(sums, n, -1e300, pith::reduction::max);
        check_sum<std::int32_t>(sums, n + 1, 7, pith::reduction::sum);
      }
    });
  }
}

TEST_CASE("a reduce-scatter of another number of elements is refused") {
  pith::run_ranks(2, [](threads comm) {
    auto sums = pith::reproducible_sums<threads>(comm);
    auto mine = std::vector<float>(5), part = std::vector<float>(2);
    CHECK_THROWS_WITH_AS(
        sums.reduce_scatter(pith::seq, pith::span<float const>(mine), pith::span(part), pith::reduction::sum),
        "pith::reproducible_sums::reduce_scatter: 'mine' must have 4 elements, got 5", std::invalid_argument);
  });
}
