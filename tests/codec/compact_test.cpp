// tests/codec/compact_test.cpp — payloads cut down to what they use, and back.
#include <pith/adaptor/bypass.hpp>
#include <pith/adaptor/checked.hpp>
#include <pith/adaptor/identity.hpp>
#include <pith/adaptor/rated.hpp>
#include <pith/codec/any_codec.hpp>
#include <pith/codec/chain.hpp>
#include <pith/codec/compact.hpp>
#include <pith/feedback/error_feedback.hpp>
#include <pith/quantize/cast.hpp>
#include <pith/quantize/qsgd.hpp>
#include <pith/sparsify/gaussian_k.hpp>
#include <pith/sparsify/threshold.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>

#include "support/roundtrip.hpp"

using namespace support;
using pith::threshold;
using dense = threshold<pith::overflow::dense>;

namespace {

using bytes = std::vector<std::byte>;

template <class In, class C>
bytes compacted(C const& codec, pith::shape dims, bytes const& payload) {
  auto out = bytes(pith::used_bytes<In>(pith::seq, codec, dims, pith::span<std::byte const>(payload)));
  CHECK(pith::compact<In>(pith::seq, codec, dims, pith::span<std::byte const>(payload), pith::span<std::byte>(out)) ==
        out.size());
  return out;
}

/// Its size when sealed; it comes back as it was.
template <class In, class C>
std::size_t sealed_size(C const& codec, std::vector<double> const& x) {
  auto const dims = pith::shape{x.size()};
  auto t = trial<In, C>(codec, dims);
  auto const payload = t.compress(narrow<In>(x));
  auto const small = compacted<In>(codec, dims, payload);
  auto again = bytes(payload.size(), std::byte{0x33});
  pith::expand<In>(pith::seq, codec, dims, pith::span<std::byte const>(small), pith::span<std::byte>(again));
  CHECK(again == payload);
  return small.size();
}

}  // namespace

TEST_CASE("a count and that many values and indices are used") {
  auto const x = std::vector<double>{0, 9, 0, 0, -9, 0, 0, 9};
  CHECK(sealed_size<float>(threshold(1, 0.9), x) == 4 + 2 + 3 * 4);
  CHECK(sealed_size<double>(threshold(1, 0.9), x) == 4 + 2 + 3 * 8);
  CHECK(sealed_size<pith::half>(threshold(1, 0.9), x) == 4 + 2 + 3 * 2);
  CHECK(sealed_size<float>(threshold(1), std::vector<double>(1000)) == 4);
  CHECK(sealed_size<float>(threshold(1), {}) == 4);
}

TEST_CASE("a dense payload has no indices") {
  auto const x = std::vector<double>(100, 3);
  CHECK(sealed_size<float>(dense(1, 0.1), x) == 4 + 400);
  CHECK(sealed_size<float>(dense(5, 0.1), x) == 4);
  CHECK(sealed_size<float>(dense(1, 1), x) == 4 + (100 * 7 + 7) / 8 + 400);
}

TEST_CASE("a chain compacts to the sum of its stages' used bytes") {
  auto x = std::vector<double>(800);
  for (std::size_t i = 0; i < 20; ++i) x[i * 40] = 2 + static_cast<double>(i);
  auto const own = std::size_t{4 + (20 * 10 + 7) / 8};
  CHECK(sealed_size<float>(threshold(1, 0.5) | pith::qsgd<8>(), x) == own + 4 * 4 + 400);
  CHECK(sealed_size<float>(pith::identity() | threshold(1, 0.5), x) == own + 20 * 4);
  auto const inner = std::size_t{4 + (10 * 9 + 7) / 8};
  CHECK(sealed_size<float>(threshold(1, 0.5) | threshold(12, 0.5), x) == own + inner + 10 * 4);
}

TEST_CASE("error_feedback compacts to the size of its codec's payload, and a fixed-rate payload keeps its full size") {
  auto const x = std::vector<double>{0, 9, 0, 0, -9, 0, 0, 9};
  CHECK(sealed_size<float>(pith::error_feedback(threshold(1, 0.9)), x) == 4 + 2 + 3 * 4);
  CHECK(sealed_size<pith::half>(pith::error_feedback(threshold(1, 0.9)), x) == 4 + 2 + 3 * 4);
  CHECK(sealed_size<float>(pith::identity(), x) == 32);
  CHECK(sealed_size<float>(pith::qsgd<8>(), x) == pith::payload_bytes<float>(pith::qsgd<8>(), {8}));
}

TEST_CASE("adaptors and type-erased codecs are cut down to the same bytes") {
  using pith::error_feedback, pith::any_codec;
  auto const x = std::vector<double>{0, 9, 0, 0, -9, 0, 0, 9};
  auto const fed = error_feedback(threshold(1, 0.9));
  CHECK(sealed_size<float>(pith::bypass(fed, 4), x) == 4 + 2 + 3 * 4);
  CHECK(sealed_size<float>(pith::bypass(fed, 9), x) == 32);
  CHECK(sealed_size<float>(pith::error_feedback(pith::rated(pith::gaussian_k(0.5))), x) ==
        sealed_size<float>(pith::error_feedback(pith::gaussian_k(0.5)), x));
  CHECK(sealed_size<float>(any_codec<float>(fed), x) == 4 + 2 + 3 * 4);
  CHECK(sealed_size<float>(any_codec<float>(pith::bypass(any_codec<float>(fed), 4)), x) == 4 + 2 + 3 * 4);
  auto y = std::vector<double>(800);
  for (std::size_t i = 0; i < 20; ++i) y[i * 40] = 2 + static_cast<double>(i);
  auto const chain = threshold(1, 0.5) | threshold(12, 0.5);
  CHECK(sealed_size<float>(any_codec<float>(chain), y) == sealed_size<float>(chain, y));
}

TEST_CASE("a checked payload compacts to its header and the used bytes of its codec") {
  auto const flag = pith::error_flag(pith::seq);
  auto const x = std::vector<double>{0, 9, 0, 0, -9, 0, 0, 9};
  auto const codec = pith::checked(threshold(1, 0.9), flag);
  auto const head = pith::payload_bytes<float>(codec, {8}) - pith::payload_bytes<float>(threshold(1, 0.9), {8});
  CHECK(sealed_size<float>(codec, x) == head + 4 + 2 + 3 * 4);
}

TEST_CASE("truncated payloads are refused, and random bytes expand and decode without error") {
  auto const codec = threshold(1, 0.5) | pith::identity();
  auto const dims = pith::shape{100};
  auto t = trial<float, decltype(threshold(1, 0.5) | pith::identity())>(codec, dims);
  auto const whole = compacted<float>(codec, dims, t.compress(narrow<float>(normal_vector(100, 3))));
  auto payload = bytes(t.payload_bytes());
  auto const open = [&](bytes const& from) {
    pith::expand<float>(pith::seq, codec, dims, pith::span<std::byte const>(from), pith::span<std::byte>(payload));
  };
  CHECK_NOTHROW(open(whole));
  CHECK_THROWS_WITH_AS(open(bytes(whole.begin(), whole.begin() + 2)),
                       "pith::expand: compacted must have at least 4 bytes, got 2", std::invalid_argument);
  for (std::size_t n = 4; n < whole.size(); ++n) {
    auto const before = payload;
    CHECK_THROWS_AS(open(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))), std::invalid_argument);
    CHECK(payload == before);
  }
  auto random = std::mt19937_64(4);
  for (int i = 0; i < 50; ++i) {
    auto noise = bytes(4 + 44 + 200);
    for (auto& b : noise) b = static_cast<std::byte>(random() & 0xff);
    open(noise);
    t.decompress(payload);
  }
  CHECK_THROWS_WITH_AS(compacted<float>(codec, dims, bytes(7)),
                       doctest::Contains("pith::used_bytes: payload must have at least"), std::invalid_argument);
}
