// tests/codec/stage_test.cpp — what the library does for a stage around its encode and decode.
#include <pith/adaptor/identity.hpp>
#include <pith/codec/chain.hpp>

#include <doctest/doctest.h>

#include <cstring>

#include "support/roundtrip.hpp"

using namespace support;

namespace {

/// Sends its values and their count, and decodes the count alone: what it was given to read.
struct count_teller : pith::codec_base {
  template <class In>
  using output = In;

  static constexpr pith::codec_traits traits = {.rates = pith::rate_form::variable};

  struct note {
    std::uint32_t* count;
    std::uint32_t n;
    void operator()(std::uint64_t) const { *count = n; }
  };
  struct tell {
    std::uint32_t const* count;
    float* x;
    void operator()(std::uint64_t i) const { x[i] = static_cast<float>(*count); }
  };

  std::string name() const { return "count_teller"; }
  template <class In>
  std::size_t side_bytes(pith::shape const&) const {
    return 4;
  }
  template <std::same_as<float> In, pith::executor E>
  void encode(pith::context<In, E> const& cx, pith::values_on<E, In const> x, pith::encoded_on<E, In> y) const {
    cx.exec.copy(y.values.data, x.data, pith::value_bytes<In>(cx.dims.n));
    cx.exec.for_each_index(1, note{y.values.count, static_cast<std::uint32_t>(cx.dims.n)});
  }
  template <std::same_as<float> In, pith::executor E>
  void decode(pith::context<In, E> const& cx, pith::encoded_on<E, In const> y, pith::values_on<E, In> x) const {
    cx.exec.for_each_index(cx.dims.n, tell{y.values.count, x.data});
  }
};

/// The decoded tensor of a payload with the count `count`.
template <class C>
std::vector<float> told(C const& codec, std::uint32_t count) {
  auto t = trial<float, C>(codec, {6});
  auto payload = t.compress(std::vector<float>(6, 1));
  std::memcpy(payload.data() + 6 * sizeof(float), &count, sizeof count);
  return t.decompress(payload);
}

}  // namespace

TEST_CASE("a count that a payload claims beyond the capacity reads as the capacity") {
  CHECK(trial<float, count_teller>({}, {6}).roundtrip(std::vector<float>(6, 1)) == std::vector<float>(6, 6));
  for (std::uint32_t const count : {0u, 3u, 6u}) {
    CHECK(told(count_teller(), count) == std::vector<float>(6, static_cast<float>(count)));
  }
  for (std::uint32_t const count : {7u, 1000u, 0xffffffffu}) {
    CHECK(told(count_teller(), count) == std::vector<float>(6, 6));
    CHECK(told(count_teller() | pith::identity(), count) == std::vector<float>(6, 6));
  }
}
