// tests/support/conform.hpp — checks of every codec on every input: no wrong write, no undefined behaviour,
// equal bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/roundtrip.hpp"

namespace support {

inline std::vector<std::byte> random_bytes(std::size_t n, std::mt19937_64& random) {
  auto bytes = std::vector<std::byte>(n);
  for (auto& b : bytes) b = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

inline bool all_finite(std::vector<double> const& x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); });
}

/// Zeros stay zero and finite numbers stay finite. A sanitizer reports no fault for NaN, infinities, subnormals and
/// corrupt payloads. Equal calls give equal bytes, and decoding twice gives equal values.
template <class In, class C>
void conforms_at(C const& codec, pith::shape dims) {
  CAPTURE(dims.n);
  CAPTURE(std::string(pith::element_name<In>()));
  auto const n = static_cast<std::size_t>(dims.n);
  auto t = trial<In, C>(codec, dims);

  auto const zeros = std::vector<double>(n);
  CHECK(widen(t.roundtrip(narrow<In>(zeros))) == zeros);
  CHECK(all_finite(widen(t.roundtrip(std::vector<In>(n, pith::element_cast<In>(-0.75))))));

  auto const x = narrow<In>(normal_vector(n, 77));
  CHECK(all_finite(widen(t.roundtrip(x))));
  auto a = trial<In, C>(codec, dims), b = trial<In, C>(codec, dims);
  auto const payload = a.compress(x, std::byte{0x00});
  CHECK(payload == b.compress(x, std::byte{0xff}));
  CHECK(same_bytes(a.decompress(payload), b.decompress(payload)));

  for (double const odd : {not_a_number, infinity, -infinity, 4.9e-324, 1.5e-45, 6e-8, 1e-40, 1e38, -6e4, 1e308}) {
    auto y = x;
    if (n > 0) y[n / 2] = pith::element_cast<In>(odd);
    t.roundtrip(y);
    t.roundtrip(std::vector<In>(n, pith::element_cast<In>(odd)));
  }
  auto random = std::mt19937_64(78);
  for (int i = 0; i < 20; ++i) t.decompress(random_bytes(t.payload_bytes(), random));
  t.decompress(std::vector<std::byte>(t.payload_bytes(), std::byte{0xff}));
}

template <class C>
void conforms(C const& codec, std::vector<pith::shape> const& shapes) {
  for (auto const& dims : shapes) {
    conforms_at<float>(codec, dims);
    conforms_at<double>(codec, dims);
    conforms_at<pith::half>(codec, dims);
    conforms_at<pith::bfloat16>(codec, dims);
  }
}

/// Empty, small and odd sizes, and a bucket plus or minus one.
template <class C>
void conforms(C const& codec, std::uint64_t bucket = 128) {
  conforms(codec, {{0}, {1}, {2}, {7}, {8}, {9}, {bucket - 1}, {bucket}, {bucket + 1}, {3 * bucket + 5}});
}

}  // namespace support
