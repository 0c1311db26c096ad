// tests/sparsify/top_k_test.cpp — the largest entries, and where they were.
#include <pith/codec/chain.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/packed_indices.hpp>
#include <pith/sparsify/top_k.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "support/conform.hpp"

using namespace support;
using pith::top_k;

namespace {

/// By a stable sort of magnitudes; NaN counts as larger than all.
std::vector<double> kept_by_sorting(std::vector<double> const& x, std::size_t k) {
  auto order = std::vector<std::size_t>(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return std::abs(x[a]) > std::abs(x[b]); });
  auto y = std::vector<double>(x.size());
  for (std::size_t i = 0; i < k; ++i) y[order[i]] = x[order[i]];
  return y;
}

/// 32 bits per index.
struct plain_indices {
  std::string name() const { return "plain_indices"; }
  std::size_t side_bytes(std::uint64_t, std::uint64_t k) const { return 4 * k; }
  template <pith::executor E>
  std::size_t scratch_bytes(E const&, std::uint64_t, std::uint64_t) const {
    return 0;
  }
  template <pith::executor E>
  void encode(E const& exec, std::uint64_t, std::uint64_t k, std::uint32_t* indices, pith::span<std::byte> side,
              pith::workspace<>&) const {
    exec.copy(side.data(), indices, 4 * k);
  }
  template <pith::executor E>
  void decode(E const& exec, std::uint64_t n, std::uint64_t k, pith::span<std::byte const> side, std::uint32_t* indices,
              pith::workspace<>&) const {
    exec.copy(indices, side.data(), 4 * k);
    for (std::uint64_t i = 0; i < k; ++i)
      indices[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(indices[i], n - 1));
  }
};

}  // namespace

TEST_CASE("top_k takes any input of any size and type") {
  conforms(top_k(0.1));
  conforms(top_k(1));
  conforms(top_k(1e-9));
}

TEST_CASE_TEMPLATE("six numbers by hand", In, float, double, pith::half, pith::bfloat16) {
  auto t = trial<In, top_k<>>(top_k(0.5), {6});
  auto const payload = t.compress(of<In>({1, -8, 2, 0, 4, 6}));
  auto const values = (3 * sizeof(In) + 7) / 8 * 8;
  REQUIRE(payload.size() == values + 2);
  auto kept = std::vector<In>(3);
  std::memcpy(kept.data(), payload.data(), 3 * sizeof(In));
  CHECK(widen(kept) == std::vector<double>{-8, 4, 6});
  // The indices 1, 4 and 5 have no lower fields. Bits 1 + 0, 4 + 1 and 5 + 2 of nine are set.
  CHECK(payload[values] == std::byte{0b10100010});
  CHECK(payload[values + 1] == std::byte{0});
  CHECK(widen(t.decompress(payload)) == std::vector<double>{0, -8, 0, 0, 4, 6});
}

TEST_CASE("ties go to the smaller index") {
  CHECK(decoded(top_k(0.5), {1, -1, 1, 1}) == std::vector<double>{1, -1, 0, 0});
  CHECK(decoded(top_k(0.5), {0, 2, -1, 1, 0, 1}) == std::vector<double>{0, 2, -1, 1, 0, 0});
  CHECK(decoded(top_k(0.34), {3, 3, 3}) == std::vector<double>{3, 0, 0});
}

TEST_CASE_TEMPLATE("top_k keeps the same elements as a sort", In, float, double, pith::half, pith::bfloat16) {
  for (std::size_t const n : {1u, 2u, 7u, 100u, 1000u}) {
    auto const x = widen(narrow<In>(normal_vector(n, n)));  // narrow types have ties
    for (double const density : {0.001, 0.01, 0.3, 0.77, 1.0}) {
      CAPTURE(n);
      CAPTURE(density);
      CHECK(decoded<In>(top_k(density), x) == kept_by_sorting(x, top_k(density).kept(n)));
    }
  }
}

TEST_CASE("NaN and then infinity count as largest") {
  auto const y = decoded(top_k(0.5), {5, not_a_number, 1, -infinity, 9, 2});
  CHECK(std::isnan(y[1]));
  CHECK(y[3] == -infinity);
  CHECK(y[4] == 9);
  CHECK(y[0] == 0);
  CHECK(decoded(top_k(0.25), {1, infinity, 3, 4})[1] == infinity);
}

TEST_CASE("top_k orders subnormal numbers by magnitude") {
  CHECK(decoded(top_k(0.5), {0x1p-149, -0x1p-148, 0, 0x1p-140}) == std::vector<double>{0, -0x1p-148, 0, 0x1p-140});
}

TEST_CASE("the squared error is within the bound of delta, and equal elements meet the bound") {
  auto const x = normal_vector(1000, 81);
  auto const y = decoded(top_k(0.1), x);
  auto const error = square(minus(widen(narrow<float>(x)), y));
  CHECK(error <= (1 - top_k(0.1).delta({1000})) * square(x));
  auto const equal = std::vector<double>(1000, -2);
  CHECK(square(minus(decoded(top_k(0.1), equal), equal)) == 900 * 4);
  CHECK(top_k(0.1).delta({1000}) == 0.1);
  CHECK(top_k(0.1).delta({0}) == 1);
}

TEST_CASE("top_k with a smaller density selects the same entries from kept entries as from the whole tensor") {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    auto const x = widen(narrow<pith::bfloat16>(normal_vector(200, seed)));
    auto const many = top_k(0.3);
    CHECK(decoded(many.at(0.05), decoded(many, x)) == decoded(top_k(0.05), x));
  }
}

TEST_CASE("a coder is a parameter") {
  auto const codec = top_k(0.3, plain_indices());
  conforms(codec, {{0}, {1}, {10}, {129}});
  auto const x = normal_vector(100, 82);
  CHECK(decoded(codec, x) == decoded(top_k(0.3), x));
  CHECK(pith::payload_bytes<float>(codec, {100}) == 30 * 4 + 30 * 4);
}

TEST_CASE("packed indices make a larger payload of the same entries") {
  auto const codec = top_k(0.01, pith::packed_indices());
  conforms(codec);
  conforms(codec | pith::qsgd<8>());
  auto const x = normal_vector(100'000, 83);
  CHECK(decoded(codec, x) == decoded(top_k(0.01), x));
  CHECK(codec.at(0.3).name() == "top_k(0.3,packed_indices)");
  // 1,000 indices of 17 bits, or of 6 bits beside a bitmap of 1,000 + 99,999 / 64 + 1 bits.
  CHECK(pith::payload_bytes<float>(codec, {100'000}) == 4000 + 2125);
  CHECK(pith::payload_bytes<float>(top_k(0.01), {100'000}) == 4000 + (6000 + 2563 + 7) / 8);
}

TEST_CASE("a density that cannot be is refused") {
  CHECK_THROWS_WITH_AS(top_k(0), "pith::top_k: density must be in (0, 1], got 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(top_k(0.1).at(2), "pith::top_k: density must be in (0, 1], got 2", std::invalid_argument);
  CHECK(top_k(0.01).name() == "top_k(0.01)");
}
