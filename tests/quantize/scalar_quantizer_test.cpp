// tests/quantize/scalar_quantizer_test.cpp — the engine, with a rule that a user could have written.
#include <pith/quantize/scalar_quantizer.hpp>

#include <doctest/doctest.h>

#include "support/conform.hpp"

using namespace support;

namespace {

/// -s, 0 or s: s is the largest magnitude, and the nearest is taken.
struct ternary_rule {
  static constexpr int bits = 2;
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;

  template <class A>
  double measure(A x) const {
    return std::abs(static_cast<double>(x));
  }
  double merge(double a, double b) const { return pith::detail::larger{}(a, b); }
  template <class A>
  A finish(double largest, std::uint64_t, A) const {
    return pith::finite_or_nan(static_cast<A>(largest));
  }
  template <class A>
  std::uint32_t code(A x, A scale, std::uint16_t) const {
    return 2 * x > scale ? 1 : -2 * x > scale ? 2 : 0;
  }
  template <class A>
  A value(std::uint32_t symbol, A scale) const {
    return symbol == 1 ? scale : symbol == 2 ? -scale : 0 * scale;
  }
};
static_assert(pith::quantizer_rule<ternary_rule, float> && pith::quantizer_rule<ternary_rule, double>);

struct ternary : pith::scalar_quantizer<ternary_rule> {
  explicit ternary(std::uint64_t bucket) : scalar_quantizer({}, bucket) {}
  std::string name() const { return "ternary"; }
};
static_assert(pith::stage<ternary, float, pith::seq_executor> && pith::reproducible<ternary>);

/// Sixteenths, to the nearest, between -8 and 7: no scale.
struct sixteenths_rule {
  static constexpr int bits = 8;
  static constexpr bool draws = false;
  static constexpr bool is_reproducible = true;

  template <class A>
  std::uint32_t code(A x, pith::unscaled<A>, std::uint16_t) const {
    return static_cast<std::uint32_t>(pith::nearest_integer(16 * x, A{127})) & 0xffu;
  }
  template <class A>
  A value(std::uint32_t symbol, pith::unscaled<A>) const {
    return static_cast<A>(static_cast<std::int8_t>(symbol)) / 16;
  }
};
static_assert(pith::quantizer_rule<sixteenths_rule, float> && pith::quantizer_rule<sixteenths_rule, double>);

struct sixteenths : pith::scalar_quantizer<sixteenths_rule> {
  sixteenths() : scalar_quantizer(sixteenths_rule()) {}
  std::string name() const { return "sixteenths"; }
};
static_assert(pith::stage<sixteenths, float, pith::seq_executor> && pith::reproducible<sixteenths>);

/// It needs no scale, and says so.
struct frank_rule : sixteenths_rule {
  using facets = pith::ext::facets<pith::ext::scale_free>;
};

struct frank : pith::scalar_quantizer<frank_rule> {
  frank() : scalar_quantizer(frank_rule()) {}
  std::string name() const { return "frank"; }
};

/// A scale, but no way to merge what it is made of.
struct unmerged_rule : sixteenths_rule {
  double measure(float) const { return 0; }
  float finish(double, std::uint64_t, float) const { return 1; }
};
static_assert(!pith::quantizer_rule<unmerged_rule, float>);

}  // namespace

TEST_CASE("a rule without a scale is a codec without side information") {
  conforms(sixteenths());
  CHECK(pith::payload_bytes<float>(sixteenths(), {1001}) == 1001);
  CHECK(sixteenths().side_bytes<double>({1001}) == 0);
  CHECK(sixteenths().scratch_bytes<float>(pith::seq, {1'000'000}) == 0);
  CHECK(decoded(sixteenths(), {0.06, -1, 3.97, 100, -100}) == std::vector<double>{0.0625, -1, 4, 7.9375, -7.9375});
  CHECK(decoded(frank(), {0.06, -1, 3.97, 100, -100}) == decoded(sixteenths(), {0.06, -1, 3.97, 100, -100}));
}

TEST_CASE("a rule of a few lines is a codec") {
  conforms(ternary(0));
  conforms(ternary(128));
  auto const x = std::vector<double>{4, -3, 1, -1, 2, 0, 2.5, -4, 8};
  CHECK(decoded(ternary(8), x) == std::vector<double>{4, -4, 0, 0, 0, 0, 4, -4, 8});
  CHECK(decoded(ternary(0), x) == std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 8});
}

TEST_CASE("a group of eight shares a bucket for every bucket size") {
  for (std::uint64_t const bucket : {8u, 16u, 24u, 128u, 136u}) {
    CAPTURE(bucket);
    auto const x = normal_vector(300, 61);
    auto const y = decoded(ternary(bucket), x);
    for (std::size_t i = 0; i < 300; ++i) {
      double largest = 0;
      for (auto j = i / bucket * bucket; j < std::min<std::size_t>(300, (i / bucket + 1) * bucket); ++j) {
        largest = std::max(largest, std::abs(static_cast<double>(static_cast<float>(x[j]))));
      }
      auto const v = static_cast<double>(static_cast<float>(x[i]));
      CHECK(y[i] == (2 * v > largest ? largest : -2 * v > largest ? -largest : 0));
    }
  }
}

TEST_CASE("sizes follow from the bucket") {
  CHECK(ternary(8).bucket_of(100) == 8);
  CHECK(ternary(8).bucket_of(3) == 3);
  CHECK(ternary(0).bucket_of(100) == 100);
  CHECK(ternary(8).side_bytes<float>({17}) == 12);
  CHECK(ternary(8).side_bytes<double>({17}) == 24);
  CHECK(ternary(0).side_bytes<pith::half>({17}) == 4);
  CHECK(ternary(0).side_bytes<float>({0}) == 0);
  CHECK(ternary(8).scratch_bytes<float>(pith::seq, {17}) == 0);
  CHECK(ternary(0).scratch_bytes<float>(pith::seq, {17}) == 0);
  CHECK(ternary(0).scratch_bytes<float>(pith::seq, {20000}) ==
        pith::scratch_for<double>(2) + pith::scratch_for<std::uint32_t>(1));
}
