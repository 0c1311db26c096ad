// tests/benchmarks/subject_test.cpp — the bytes that an operation moves at least, from the sizes.
#include "../../benchmarks/subject.hpp"

#include <doctest/doctest.h>

#include "support/parsed.hpp"

#include <algorithm>
#include <cmath>

namespace {

constexpr double n = 4096;

auto subject_of(char const* text) {
  return bench::subject<float, pith::seq_executor>(pith::seq, text, bench::matrix_of(12), 2);
}

}  // namespace

TEST_CASE("encoding reads values and writes a payload, decoding the reverse") {
  auto half = subject_of("cast<half>");
  CHECK(half.encoding().read == 4 * n);
  CHECK(half.encoding().written == 2 * n);
  CHECK(half.decoding().read == 2 * n);
  CHECK(half.decoding().written == 4 * n);
}

TEST_CASE("feedback reads and writes its residual when it encodes") {
  auto sign = subject_of("ef(scaled_sign)");
  auto const payload = static_cast<double>(sign.payload_bytes());
  CHECK(sign.encoding().read == 8 * n);
  CHECK(sign.encoding().written == 4 * n + payload);
  CHECK(sign.decoding().total() == 4 * n + payload);
}

TEST_CASE("a warm start is agreed: it is read both ways") {
  auto low_rank = subject_of("power_sgd(4)");
  auto const replicated = static_cast<double>(low_rank.replicated_bytes());
  CHECK(replicated > 0);
  CHECK(low_rank.encoding().read == 4 * n + replicated);
}

TEST_CASE("used_bytes counts only the kept entries of a variable-rate payload, and all bytes of a fixed-rate one") {
  auto counted = subject_of("threshold(2,0.5)");
  auto const x = bench::normal_values<float>(4096);
  counted.encode(0, x);
  auto const kept =
      static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [](float v) { return std::abs(v) >= 2; }));
  REQUIRE(kept > 0);
  CHECK(counted.used_bytes() == 4 + 4 * kept + (12 * kept + 7) / 8);
  CHECK(subject_of("qsgd<8>").used_bytes() == subject_of("qsgd<8>").payload_bytes());
}

TEST_CASE("each set keeps its own payload") {
  auto codec = subject_of("identity");
  auto const x = bench::normal_values<float>(4096), twice = std::vector<float>(4096, 2.0f);
  auto y = x;
  codec.encode(0, x);
  codec.encode(1, twice);
  codec.decode(0, y);
  CHECK(y == x);
  codec.decode(1, y);
  CHECK(y == twice);
}
