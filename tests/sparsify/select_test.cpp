// tests/sparsify/select_test.cpp — the k largest magnitudes, against a sort, by every way to find them.
#include <pith/exec/seq.hpp>
#include <pith/sparsify/select.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <random>
#include <vector>

#include "support/reversed.hpp"
#include "support/sampled_places.hpp"
#include "support/vectors.hpp"

using pith::accum;
using support::reversed;

namespace {

template <class In>
struct selected {
  std::vector<std::uint32_t> indices;
  std::vector<In> values;
};

template <class In, class E>
selected<In> select(E const& exec, std::vector<In> const& x, std::uint64_t k) {
  auto const from = pith::ext::plain_source<In>{x.data()};
  auto const bytes = pith::ext::select_scratch_bytes<pith::ext::plain_source<In>, pith::space_of<E>>(x.size(), k);
  auto memory = std::vector<std::byte>(bytes + 128, std::byte{0xa5});
  auto ws = pith::workspace_on<E>(pith::span_on<E, std::byte>(memory.data(), memory.size()));
  auto out = selected<In>{std::vector<std::uint32_t>(k), std::vector<In>(k)};
  pith::ext::select_largest(exec, from, x.size(), k,
                            pith::ext::selected_entries<In>{out.indices.data(), out.values.data()}, ws);
  CHECK(ws.high_water() == bytes);
  return out;
}

/// Whether one pass finds few that the k largest are among.
bool has_candidates(std::vector<float> const& x, std::uint64_t k) {
  using source = pith::ext::plain_source<float>;
  auto memory = std::vector<std::byte>(pith::ext::select_scratch_bytes<source>(x.size(), k) + 128);
  auto ws = pith::workspace<>(pith::span<std::byte>(memory));
  auto const size = pith::detail::selection_size::of(x.size(), k);
  auto const of = pith::detail::selection_on(
      source{x.data()}, size, [&]<class T>(T, std::uint64_t count) { return ws.template take<T>(count).data; });
  *of.state = {};
  pith::detail::find_candidates(pith::seq, of, size, ws);
  return of.from_candidates();
}

template <class In>
auto key(In x) {
  return pith::detail::magnitude_bits(pith::element_cast<accum<In>>(x));
}

/// Places by falling magnitude.
template <class In>
std::vector<std::uint32_t> ranking(std::vector<In> const& x) {
  auto order = std::vector<std::uint32_t>(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return key(x[a]) > key(x[b]); });
  return order;
}

template <class In>
selected<In> prefix(std::vector<In> const& x, std::vector<std::uint32_t> order, std::size_t k) {
  order.resize(k);
  std::sort(order.begin(), order.end());
  auto out = selected<In>{order, {}};
  for (auto const i : order) out.values.push_back(x[i]);
  return out;
}

/// For each k, on blocks that run in order, and on such that do not.
template <class In>
void agrees(std::vector<In> const& x, std::initializer_list<std::size_t> ks) {
  auto const order = ranking(x);
  for (auto const k : ks) {
    CAPTURE(x.size());
    CAPTURE(k);
    auto const expected = prefix(x, order, k);
    auto const is_right = [&](selected<In> const& got) {
      CHECK(got.indices == expected.indices);
      CHECK(support::same_bytes(got.values, expected.values));
    };
    is_right(select(pith::seq, x, k));
    is_right(select(reversed(), x, k));
  }
}

/// Values of either sign that take `distinct` magnitudes.
template <class In>
std::vector<In> repeating(std::size_t n, std::uint64_t distinct, std::uint64_t seed) {
  auto random = std::mt19937_64(seed);
  auto x = std::vector<In>(n);
  for (auto& v : x) {
    auto const magnitude = static_cast<double>(random() % distinct + 1);
    v = pith::element_cast<In>(random() % 2 == 0 ? magnitude : -magnitude);
  }
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("the largest are selected as a stable sort would", In, float, double, pith::half, pith::bfloat16) {
  for (std::size_t const n :
       {1u, 2u, 3u, 17u, 32u, 33u, 1000u, 1024u, 1025u, 2048u, 2049u, 5000u, 8193u, 16384u, 16385u}) {
    for (std::uint64_t const distinct : {1u, 3u, 60000u}) {
      auto const x = repeating<In>(n, distinct, n + distinct);
      agrees(x, {1, n});
      if (n > 2) agrees(x, {n / 3, n / 2 + 1, n - 1});
    }
  }
}

TEST_CASE_TEMPLATE("few of many are selected by way of candidates", In, float, double, pith::half) {
  for (std::size_t const n : {16384u, 16385u, 50001u, 65536u, 65537u, 300000u}) {
    auto const x = support::narrow<In>(support::normal_vector(n, n));
    REQUIRE(pith::detail::selection_size::of(n, n / 100).samples > 0);
    REQUIRE(pith::detail::selection_size::of(n, n / 4 + 1).samples == 0);
    agrees(x, {1, 2, n / 1000, n / 100, n / 16, n / 4, n / 4 + 1});
  }
}

/// The memory space of a device, and the team of seq.
struct elsewhere : pith::seq_executor {
  using space = pith::device_space;
};

TEST_CASE("candidates are collected as the team does, whatever the memory") {
  auto values = std::vector<float>(std::size_t{1} << 18, 0.5f);
  for (std::size_t i = 0; i < values.size() / 4; i += 10) values[i] = 1.5f;  // enough in the first quarter
  for (std::size_t i = values.size() - 50; i < values.size(); ++i) values[i] = 100;
  auto const k = values.size() / 100;
  CHECK(select(elsewhere(), values, k).indices == select(pith::seq, values, k).indices);
}

TEST_CASE("candidates that are too many or too few do not matter") {
  for (std::size_t const n : {1000u, 20000u, 100000u}) {
    agrees(std::vector<float>(n, 3.5f), {n / 100});
    agrees(std::vector<float>(n, 0.0f), {n / 100});
    agrees(repeating<float>(n, 3, 6), {n / 100});
    auto sparse = std::vector<float>(n);
    for (std::size_t i = 0; i < n; i += n / 50) sparse[i] = static_cast<float>(i);
    agrees(sparse, {49, 50, n / 16});
  }
  auto const normal = support::narrow<float>(support::normal_vector(70000, 5));
  for (auto const outlier : {50.0f, static_cast<float>(support::not_a_number)}) {
    agrees(support::misleading(normal, outlier, 400), {300, 400, 401, 600});
  }
}

TEST_CASE("one pass finds the candidates for the k largest elements in a tensor that is nearly all zeros") {
  std::size_t const n = 1u << 18, k = n / 100;
  for (std::size_t const nonzeros : {std::size_t{0}, std::size_t{1}, k - 1, k, k + 1, 2 * k}) {
    CAPTURE(nonzeros);
    auto x = std::vector<float>(n);
    for (std::size_t i = 0; i < nonzeros; ++i) x[n - 1 - i * (n / nonzeros)] = static_cast<float>(i % 999) - 499.5f;
    CHECK(has_candidates(x, k));
    agrees(x, {k});
  }
}

TEST_CASE("places are sampled once each and all over") {
  auto places = support::sampled_places(60000);
  CHECK(places.size() == 4096);
  std::sort(places.begin(), places.end());
  CHECK(std::adjacent_find(places.begin(), places.end()) == places.end());
  for (std::size_t i = 0; i + 16 < places.size(); ++i) CHECK(places[i + 16] - places[i] <= 2 * 60000 / 256);
}

TEST_CASE_TEMPLATE("infinities and NaN are selected first and are ordered by their bits", In, float, double) {
  for (std::size_t const n : {20u, 500u, 5000u, 20000u, 70000u}) {
    auto x = support::narrow<In>(support::normal_vector(n, n));
    for (std::size_t i = 0; i < n; i += 7) x[i] = static_cast<In>(i % 2 == 0 ? support::infinity : -support::infinity);
    for (std::size_t i = 3; i < n; i += 11) x[i] = static_cast<In>(support::not_a_number);
    agrees(x, {1, n / 20, n / 10, n / 3});
    agrees(std::vector<In>(n, static_cast<In>(support::not_a_number)), {n / 20});
  }
}

TEST_CASE("ties go to the smaller index") {
  auto const x = std::vector<float>{5, -7, 5, 7, -5, 1, 5};
  CHECK(select(pith::seq, x, 1).indices == std::vector<std::uint32_t>{1});
  CHECK(select(pith::seq, x, 3).indices == std::vector<std::uint32_t>{0, 1, 3});
  CHECK(select(pith::seq, x, 5).indices == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  CHECK(select(pith::seq, x, 7).indices == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("nothing is selected from nothing") { CHECK(select(pith::seq, std::vector<float>{}, 0).indices.empty()); }

TEST_CASE("a selection of one in a hundred takes less than one byte per element") {
  auto const bytes = [](std::uint64_t n, std::uint64_t k) {
    return pith::ext::select_scratch_bytes<pith::ext::plain_source<float>>(n, k);
  };
  for (std::uint64_t const n : {1u << 20, 1u << 24, 1u << 28}) {
    CHECK(bytes(n, n / 100) < n);
    CHECK(bytes(n, n / 1000) < n / 4);
    CHECK(bytes(n, n / 2) < n / 16);
  }
}
