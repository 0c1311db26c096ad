// tests/codec/chain_test.cpp — stages in a row: bytes by hand, types, sizes, capabilities.
#include <pith/adaptor/damped.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>
#include <pith/lowrank/power_sgd.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/quantize/scaled_sign.hpp>
#include <pith/quantize/sign.hpp>
#include <pith/quantize/terngrad.hpp>
#include <pith/sparsify/random_k.hpp>
#include <pith/sparsify/top_k.hpp>
#include <pith/transform/hadamard.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "support/gathered.hpp"

using namespace support;

/// A user's stage, beside functions of the user's that have the names of the library's own.
namespace crowded {

struct stage : pith::identity {
  std::string name() const { return "crowded"; }
};

template <class In, class... T>
void encode(stage const&, T const&...) = delete;
template <class In, class... T>
void decode(stage const&, T const&...) = delete;
template <class In, class... T>
std::size_t side_bytes(stage const&, T const&...) = delete;
template <class In, class... T>
std::size_t scratch_bytes(stage const&, T const&...) = delete;
template <class... T>
pith::shape output_shape(stage const&, T const&...) = delete;

}  // namespace crowded

namespace {

template <class T>
T read(std::vector<std::byte> const& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

unsigned byte(std::vector<std::byte> const& bytes, std::size_t at) { return std::to_integer<unsigned>(bytes[at]); }

auto const three = pith::top_k(0.5, pith::packed_indices()) | pith::identity() | pith::qsgd<8>();

}  // namespace

TEST_CASE("top_k and scaled_sign of six numbers by hand") {
  auto const codec = pith::top_k(0.5, pith::packed_indices()) | pith::scaled_sign();
  auto t = trial<float, std::remove_const_t<decltype(codec)>>(codec, {6});
  auto const payload = t.compress(of({1, -8, 2, 0, 4, 6}));
  // Kept: -8, 4, 6 at 1, 4, 5. Signs 0b001, padded to 8; indices of 3 bits 0b101'100'001, padded to 8; scale 18 / 3.
  REQUIRE(payload.size() == 20);
  CHECK(byte(payload, 0) == 0b001);
  CHECK(byte(payload, 8) == 0b01100001);
  CHECK(byte(payload, 9) == 0b1);
  CHECK(read<float>(payload, 16) == 6);
  for (auto const padding : {1, 2, 7, 10, 15}) CHECK(byte(payload, static_cast<std::size_t>(padding)) == 0);
  CHECK(t.decompress(payload) == of({0, -6, 0, 0, 6, 6}));
}

TEST_CASE("chains are flat however they are grouped") {
  auto const left = (pith::top_k(0.5) | pith::identity()) | pith::qsgd<8>();
  auto const right = pith::top_k(0.5) | (pith::identity() | pith::qsgd<8>());
  CHECK(std::is_same_v<decltype(left), decltype(right)>);
  CHECK(left.name() == "top_k(0.5)|identity|qsgd<8>");
  auto const x = narrow<float>(normal_vector(301, 3));
  auto a = trial<float, std::remove_const_t<decltype(left)>>(left, {301});
  auto b = trial<float, std::remove_const_t<decltype(right)>>(right, {301});
  CHECK(a.compress(x) == b.compress(x));
}

TEST_CASE("a user's functions are not taken for the library's") {
  auto const codec = crowded::stage() | pith::top_k(0.5) | crowded::stage();
  auto t = trial<float, std::remove_const_t<decltype(codec)>>(codec, {6});
  CHECK(t.decompress(t.compress(of({1, -8, 2, 0, 4, 6}))) == of({0, -8, 0, 0, 4, 6}));
}

TEST_CASE("side information follow each other at multiples of 8 bytes") {
  for (std::uint64_t const n : {1u, 2u, 6u, 10u, 127u, 128u, 129u, 1000u}) {
    CAPTURE(n);
    auto const k = std::max<std::uint64_t>(1, n / 2);
    auto const indices = pith::packed_indices().side_bytes(n, k);
    auto const scales = (k + 127) / 128 * sizeof(float);
    CHECK(three.side_bytes<float>({n}) == (indices + 7) / 8 * 8 + scales);
    CHECK(pith::payload_bytes<float>(three, {n}) == (k + 7) / 8 * 8 + (indices + 7) / 8 * 8 + scales);
    CHECK(three.output_shape({n, 1}).n == k);
  }
}

TEST_CASE("a chain decodes the same values as its stages applied in sequence") {
  auto const x = normal_vector(130, 4);
  auto const kept = decoded(pith::top_k(0.3), x);
  auto const both = decoded(pith::top_k(0.3) | pith::cast<pith::half>(), x);
  CHECK(both == decoded(pith::cast<pith::half>(), kept));
}

TEST_CASE("stages of a chain draw different numbers") {
  auto const x = narrow<float>(normal_vector(512, 6));
  auto alone = trial<float, pith::qsgd<4>>(pith::qsgd<4>(), {512});
  auto const second = pith::identity() | pith::qsgd<4>();
  auto behind = trial<float, std::remove_const_t<decltype(second)>>(second, {512});
  auto const a = alone.compress(x);
  auto const b = behind.compress(x);
  REQUIRE(a.size() == b.size());
  CHECK(std::equal(a.end() - 16, a.end(), b.end() - 16));     // the same scales
  CHECK(!std::equal(a.begin(), a.begin() + 256, b.begin()));  // other symbols
}

TEST_CASE("a chain of a stage with state carries it") {
  auto const codec = pith::power_sgd(1) | pith::cast<pith::half>();
  auto const dims = pith::shape{12 * 12, 12};
  auto const x = normal_vector(dims.n, 7);
  auto const y = decoded(codec, dims, x);
  auto const dense = decoded(pith::power_sgd(1), dims, x);
  // P and Q are each off by 2^-11 of an entry: a product by 2^-10, and half as much again for second order.
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(y[i] - dense[i]) <= 1.5 * 0x1p-10 * std::abs(dense[i]));
}

TEST_CASE("capabilities are computed from the parts") {
  auto const dims = pith::shape{1000};
  auto const quantized = pith::top_k(0.1) | pith::qsgd<8>();
  auto const omega = pith::qsgd<8>().omega({100});
  CHECK(quantized.delta(dims) == doctest::Approx(0.1 * (1 - omega)).epsilon(1e-15));
  CHECK((pith::top_k(0.1) | pith::scaled_sign()).delta(dims) == doctest::Approx(0.1 * 0.01).epsilon(1e-15));
  CHECK((pith::top_k(0.1) | pith::damped(pith::qsgd<2>())).delta(dims) ==
        doctest::Approx(0.1 / (1 + pith::qsgd<2>().omega({100}))).epsilon(1e-15));
  auto const unbiased = pith::random_k(0.25, pith::options::unbiased) | pith::qsgd<4>();
  CHECK(unbiased.omega(dims) == doctest::Approx(4 * (1 + pith::qsgd<4>().omega({250})) - 1).epsilon(1e-15));
  CHECK(pith::traits_of<decltype(pith::top_k(0.1) | pith::scaled_sign())>.projection);
  CHECK(!pith::traits_of<decltype(quantized)>.projection);
  CHECK(!pith::traits_of<decltype(quantized)>.isometric);
  CHECK(pith::traits_of<decltype(pith::top_k(0.1) | pith::identity())>.isometric);
  CHECK(!pith::promises_of<decltype(pith::power_sgd(4) | pith::qsgd<8>())>.contractive);
  CHECK(!pith::promises_of<decltype(quantized)>.unbiased);
}

TEST_CASE("a chain is summed as its parts can") {
  CHECK((pith::random_k(0.1) | pith::identity()).traits.sums == pith::sum_form::encode);
  CHECK((pith::random_k(0.1) | pith::cast<pith::half>()).traits.sums == pith::sum_form::decode);
  CHECK((pith::top_k(0.1) | pith::cast<pith::half>()).traits.sums == pith::sum_form::none);
}

TEST_CASE_TEMPLATE("stages that decode alike and linearly decode the mean of all ranks", In, float, double) {
  constexpr unsigned ranks = 5;
  auto const check = [](auto const& codec, pith::shape dims) {
    CAPTURE(codec.name());
    CAPTURE(dims.n);
    auto const all = gather<In>(codec, dims, ranks);
    auto const mean = mean_of(pith::seq, codec, dims, ranks, all);
    CHECK(mean_of(pith::seq, erased<In>(codec), dims, ranks, all) == mean);
    // Either way a term is rounded in at most 8 butterflies, by a rank each, a unit and a factor; the terms of a value
    // add up to at most the norm of a tile. One more for products of these errors.
    auto const bound = 2 * (8 + ranks + 3) * std::numeric_limits<In>::epsilon() / 2 * all.norm;
    auto const got = widen(mean), expected = widen(all.mean);
    for (std::size_t i = 0; i < dims.n; ++i) CHECK(std::abs(got[i] - expected[i]) <= bound);
  };
  for (std::uint64_t const n : {9u, 4096u, 5003u}) {
    check(pith::hadamard() | pith::qsgd<4>(), {n});
    check(pith::hadamard(64) | pith::scaled_sign(), {n});
    check(pith::random_k(0.3) | pith::qsgd<8>(), {n});
    check(pith::hadamard() | pith::sign(), {n});
    check(pith::random_k(0.3) | pith::sign(), {n});
  }
}

TEST_CASE_TEMPLATE("a rotation in the pass of a quantizer encodes the same bytes as the separate stages", In, float,
                   double) {
  auto const check = [](auto const& codec, std::uint64_t n) {
    CAPTURE(codec.name());
    CAPTURE(n);
    CHECK(gather<In>(codec, {n}, 2).bytes == gather<In>(erased<In>(codec), {n}, 2).bytes);
  };
  for (std::uint64_t const n : {1u, 4096u, 40'003u}) {
    check(pith::hadamard() | pith::qsgd<8>(), n);
    check(pith::hadamard() | pith::scaled_sign(), n);
    check(pith::hadamard() | pith::terngrad(), n);
  }
}

TEST_CASE_TEMPLATE("empty and small tensors pass through a chain", In, float, double, pith::half, pith::bfloat16) {
  for (std::size_t const n : {0u, 1u, 2u, 7u}) {
    CAPTURE(n);
    auto const x = std::vector<double>(n, -2);
    auto expected = std::vector<double>(n);
    for (std::size_t i = 0; i < std::max<std::size_t>(n > 0, n / 2); ++i) expected[i] = -2;
    CHECK(decoded<In>(pith::top_k(0.5) | pith::scaled_sign(), x) == expected);
  }
}
