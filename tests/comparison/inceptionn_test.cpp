// tests/comparison/inceptionn_test.cpp — elements in as many bits as their magnitude has.
#include <pith/codec/compact.hpp>
#include <pith/comparison/inceptionn.hpp>
#include <pith/feedback/error_feedback.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

#include "laws/laws.hpp"
#include "support/conform.hpp"

using namespace support;
using pith::byte_field;
using pith::inceptionn;

namespace {

double rounded_to(double x, double unit) { return std::copysign(std::floor(std::abs(x) / unit) * unit, x); }

double expected(double x, byte_field field) {
  auto const size = std::abs(x);
  if (!(size < 1)) return x;
  if (size >= 0x1p-5) return rounded_to(x, 0x1p-14);
  if (size < 0x1p-10) return 0;
  if (field == byte_field::repaired) return rounded_to(x, 0x1p-12);
  return std::copysign(size >= 0x1p-6 ? 0x1p-6 : 0x1p-7, x);
}

}  // namespace

TEST_CASE("inceptionn takes any input of any size") {
  for (std::uint64_t const n : {0u, 1u, 3u, 4u, 5u, 1000u}) {
    conforms_at<float>(inceptionn(), {n});
    conforms_at<float>(inceptionn(byte_field::repaired, 0.3), {n});
  }
}

TEST_CASE("inceptionn keeps its bound") {
  for (auto const field : {byte_field::reference, byte_field::repaired}) {
    for (std::uint64_t const n : {1u, 7u, 1000u}) {
      auto const found = laws::check(inceptionn(field), {n});
      INFO(found.text());
      CHECK(found.holds());
    }
  }
}

TEST_CASE("each range has its field") {
  auto random = std::mt19937_64(11);
  auto x = std::vector<double>();
  for (int e = -14; e <= 3; ++e) {
    for (auto const at : {1.0, 1 + 0x1p-23, 2 - 0x1p-23, 1 + uniform(random), 1 + uniform(random)}) {
      x.push_back(static_cast<float>(std::ldexp(at, e)));
      x.push_back(-x.back());
    }
  }
  for (auto const field : {byte_field::reference, byte_field::repaired}) {
    auto const y = decoded(inceptionn(field), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      CHECK(y[i] == expected(x[i], field));
      CHECK(std::abs(y[i] - x[i]) < inceptionn(field).error_bound({x.size()}));
    }
  }
}

TEST_CASE("six numbers by hand") {
  auto const x = of({-2, 0.5, -0x1p-6, 0, 0x1p-9, 0x1p-11});
  auto t = trial<float, inceptionn>(inceptionn(), {6});
  auto const payload = t.compress(x);
  REQUIRE(payload.size() == 24 + 4 + 2);
  auto const bytes = [&](std::size_t at, std::initializer_list<int> wanted) {
    for (auto const b : wanted) CHECK(std::to_integer<int>(payload[at++]) == b);
  };
  bytes(0, {0, 0, 0, 0xc0, 0x00, 0x20, 0x81, 0x00, 0});      // 4, 2, 1 and 1 bytes, and zeros
  bytes(24, {8, 0, 0, 0, 3 | 2 << 2 | 1 << 4 | 0 << 6, 1});  // as many bytes, and tags
  // The field of 2^-9 is 0, which the reference decodes to 2^-7.
  CHECK(widen(t.decompress(payload)) == std::vector<double>{-2, 0.5, -0x1p-6, 0, 0x1p-7, 0});
  CHECK(decoded(inceptionn(byte_field::repaired), widen(x)) == std::vector<double>{-2, 0.5, -0x1p-6, 0, 0x1p-9, 0});
}

TEST_CASE("NaN and infinity are kept") {
  auto const y = decoded(inceptionn(), {infinity, not_a_number, -infinity, 1});
  CHECK(y[0] == infinity);
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == -infinity);
}

TEST_CASE("inceptionn drops an element whose code finds no room, and a later shorter code can still fit") {
  auto const y = decoded(inceptionn(byte_field::repaired, 0.5), {3, -5, 7, 0.5});  // eight of sixteen bytes
  CHECK(y == std::vector<double>{3, -5, 0, 0});
  CHECK(decoded(inceptionn(byte_field::repaired, 0.4), {3, -5, 7, 0.5}) == std::vector<double>{3, 0, 0, 0.5});
}

TEST_CASE("a sealed payload has the bytes in use") {
  auto const dims = pith::shape{6};
  auto t = trial<float, inceptionn>(inceptionn(), dims);
  auto const payload = t.compress(of({-2, 0.5, -0x1p-6, 0, 0x1p-9, 0x1p-11}));
  auto const used = pith::used_bytes<float>(pith::seq, inceptionn(), dims, pith::span<std::byte const>(payload));
  CHECK(used == 8 + 4 + 2);
  auto compacted = std::vector<std::byte>(used), again = std::vector<std::byte>(payload.size());
  pith::compact<float>(pith::seq, inceptionn(), dims, pith::span<std::byte const>(payload),
                       pith::span<std::byte>(compacted));
  pith::expand<float>(pith::seq, inceptionn(), dims, pith::span<std::byte const>(compacted),
                      pith::span<std::byte>(again));
  CHECK(again == payload);
}

TEST_CASE("the residual of inceptionn accumulates elements that are too small to encode until a step sends them") {
  auto t = trial<float, pith::error_feedback<inceptionn>>(pith::error_feedback(inceptionn(byte_field::repaired)), {1});
  double sent = 0;
  for (int step = 1; step <= 100; ++step) {
    sent += static_cast<double>(t.roundtrip(of({0x1p-12}))[0]);
    CHECK(std::abs(step * 0x1p-12 - sent) <= 0x1p-10);
  }
  CHECK(sent > 0);
}

TEST_CASE("halves are fed back in float") {
  auto t = trial<pith::half, pith::error_feedback<inceptionn>>(pith::error_feedback(inceptionn()), {3});
  CHECK(widen(t.roundtrip(of<pith::half>({2, 0x1p-6, 0x1p-11}))) == std::vector<double>{2, 0x1p-6, 0});
}

TEST_CASE("the name of inceptionn states its parameters, and a capacity of 0 is refused") {
  CHECK(inceptionn().name() == "inceptionn(reference)");
  CHECK(inceptionn(byte_field::repaired, 0.25).name() == "inceptionn(repaired,0.25)");
  CHECK(inceptionn(byte_field::repaired, 0.25).error_bound({9}) == infinity);
  CHECK_THROWS_WITH_AS(inceptionn(byte_field::repaired, 0), "pith::inceptionn: capacity must be in (0, 1], got 0",
                       std::invalid_argument);
}
