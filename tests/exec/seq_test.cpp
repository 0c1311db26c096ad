// tests/exec/seq_test.cpp — the reference executor's selection, against a sort.
#include <pith/exec/seq.hpp>
#include <pith/sparsify/select.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace {

template <class Key>
struct key_at {
  Key const* keys;
  Key operator()(std::uint64_t i) const { return keys[i]; }
};

template <class Key>
std::vector<std::uint32_t> selected(std::vector<Key> const& keys, std::size_t k) {
  auto out = std::vector<std::uint32_t>(k);
  auto const bytes = pith::detail::select_scratch_bytes<Key>(keys.size()) + 128;
  auto memory = std::vector<std::byte>(bytes);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  pith::detail::select_largest(pith::seq, out.data(), k, keys.size(), key_at<Key>{keys.data()}, ws);
  CHECK(ws.high_water() <= pith::detail::select_scratch_bytes<Key>(keys.size()));
  return out;
}

template <class Key>
std::vector<std::uint32_t> sorted_prefix(std::vector<Key> const& keys, std::size_t k) {
  auto order = std::vector<std::uint32_t>(keys.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return keys[a] > keys[b]; });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

TEST_CASE_TEMPLATE("the largest are selected as a stable sort would", Key, std::uint16_t, std::uint32_t,
                   std::uint64_t) {
  auto random = std::mt19937_64(21);
  for (std::size_t const n : {1u, 2u, 3u, 17u, 1000u, 4099u}) {
    for (std::uint64_t const distinct : {std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{60000}}) {
      auto keys = std::vector<Key>(n);
      for (auto& key : keys) key = static_cast<Key>(random() % distinct * (sizeof(Key) == 2 ? 1 : 65537));
      for (std::size_t const k : {std::size_t{0}, std::size_t{1}, n / 3, n / 2 + 1, n - 1, n}) {
        if (k > n) continue;
        CAPTURE(n);
        CAPTURE(distinct);
        CAPTURE(k);
        CHECK(selected(keys, k) == sorted_prefix(keys, k));
      }
    }
  }
}

TEST_CASE("ties go to the smaller index") {
  auto const keys = std::vector<std::uint32_t>{5, 7, 5, 7, 5, 1, 5};
  CHECK(selected(keys, 1) == std::vector<std::uint32_t>{1});
  CHECK(selected(keys, 3) == std::vector<std::uint32_t>{0, 1, 3});
  CHECK(selected(keys, 5) == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  CHECK(selected(keys, 7) == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("nothing is selected from nothing") { CHECK(selected(std::vector<std::uint32_t>{}, 0).empty()); }

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
