// tests/golden/odd_cases_test.cpp — GRACE's methods on what its code stumbles over: nothing, one element, zeros, equal
// elements, ties, and what is no number.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../examples/train/reference_codecs.hpp"
#include "support/parsed.hpp"
#include "support/roundtrip.hpp"

using namespace support;

namespace {

using train::any_codec;
using values = std::vector<double>;

constexpr double nan_ = not_a_number, x = 0.7f;

values const alone = {x}, equal = values(8, 0.5), zeros = values(8), ties = {2, -2, 2, -2, 2, -2, 2, -2},
             odd = {nan_, 1, -2, infinity}, all_nan = values(4, nan_);

any_codec codec_of(std::string const& text) {
  auto const method = train::reference_codec(text);
  return method ? *method : pith::parse<float>(text);
}

/// The decoded tensor of each input, up to a relative `tolerance`. Draws are fixed by the seed.
struct expectation {
  char const* codec;
  values alone, equal, zeros, ties, odd;
  double tolerance = 0;
};

/// The most that rounding to a level of 127 changes: the norm of eight equal elements is sqrt(8) of one, and a level of it,
/// rounded up by 2^-15 at most, is sqrt(8) / 127.
constexpr double level = 0.0224;

expectation const methods[] = {
    {"identity", alone, equal, zeros, ties, odd},
    {"cast<half>", {0.7001953125}, equal, zeros, ties, odd},
    {"stochastic_cast<bfloat16>", alone, equal, zeros, ties, odd, 0x1p-7},
    {"one_bit", alone, equal, zeros, ties, all_nan},
    {"scaled_sign", alone, equal, zeros, ties, all_nan},
    {"sign", {1}, values(8, 1), values(8, 1), {1, -1, 1, -1, 1, -1, 1, -1}, {1, 1, -1, 1}},
    {"summed_sign", {1}, values(8, 1), values(8, 1), {1, -1, 1, -1, 1, -1, 1, -1}, {1, 1, -1, 1}},
    {"qsgd<8>(127,0)", alone, equal, zeros, ties, all_nan, level},
    {"qsgd<8>", alone, equal, zeros, ties, all_nan, level},
    {"terngrad", alone, equal, zeros, ties, all_nan},
    {"summed_terngrad", alone, equal, zeros, ties, all_nan},
    {"natural<8>", {0.5}, equal, zeros, ties, {nan_, 1, -2, nan_}},
    {"natural<9>", {0.5}, equal, zeros, ties, {nan_, 1, -2, nan_}},
    {"eight_bit", alone, equal, zeros, ties, all_nan},
    {"eight_bit(0,floor)", alone, equal, zeros, ties, all_nan},
    {"inceptionn(reference)", {11468 * 0x1p-14}, equal, zeros, ties, odd},
    {"inceptionn(repaired)", {11468 * 0x1p-14}, equal, zeros, ties, odd},
    {"random_k(0.01)", alone, {0, 0, 0, 0, 0, 0, 0.5, 0}, zeros, {0, 0, 0, 0, 0, 0, 2, 0}, {0, 0, 0, infinity}},
    {"top_k(0.01)", alone, {0.5, 0, 0, 0, 0, 0, 0, 0}, zeros, {2, 0, 0, 0, 0, 0, 0, 0}, {nan_, 0, 0, 0}},
    {"threshold(0.01)", alone, equal, zeros, ties, odd},
    {"adaptive_threshold(0.01)", alone, {0.5, 0, 0, 0, 0, 0, 0, 0}, zeros, {2, -2, 0, 0, 0, 0, 0, 0}, {nan_, 0, -2, 0}},
    {"sketch_ml<6>", alone, equal, zeros, ties, {nan_, 1, -2, nan_}},
    {"power_sgd(1)", alone, equal, zeros, ties, odd},
};

bool agree(values const& a, values const& b, double tolerance) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [=](double u, double v) {
    return u == v || std::abs(u - v) <= tolerance * std::abs(v) || (std::isnan(u) && std::isnan(v));
  });
}

std::string shown(values const& y) {
  auto text = std::string();
  for (auto const v : y) text += std::to_string(v) + " ";
  return text;
}

/// By itself, and as the mean of two ranks that hold the same.
void decodes_to(any_codec const& codec, values const& given, values const& expected, double tolerance) {
  CAPTURE(codec.name());
  CAPTURE(shown(given));
  auto const y = decoded(codec, given);
  CHECK_MESSAGE(agree(y, expected, tolerance), shown(y));
  auto const mean =
      trial<float, any_codec>(codec, {given.size()}).all_reduce(narrow<float>(given), echo_communicator<2>());
  CHECK_MESSAGE(agree(widen(mean), expected, tolerance), shown(widen(mean)));
}

}  // namespace

TEST_CASE("single, equal, zero, tied, NaN, infinite and empty inputs decode to the values defined for each method") {
  for (auto const& m : methods) {
    auto const codec = codec_of(m.codec);
    decodes_to(codec, alone, m.alone, m.tolerance);
    decodes_to(codec, equal, m.equal, m.tolerance);
    decodes_to(codec, zeros, m.zeros, m.tolerance);
    decodes_to(codec, ties, m.ties, m.tolerance);
    decodes_to(codec, odd, m.odd, m.tolerance);
    decodes_to(codec, {}, {}, 0);
  }
}

TEST_CASE("numbers beyond a method's range go to its end, and one among zeros leaves them") {
  decodes_to(codec_of("cast<half>"), {1e5, -1, 65504, 1e-8}, {infinity, -1, 65504, 0}, 0);
  decodes_to(codec_of("natural<8>"), {1e30, -1e30, 0x1p-107, 1e-40, 2}, {0x1p18, -0x1p18, 0x1p-107, 0, 2}, 0);
  decodes_to(codec_of("qsgd<8>(127,0)"), {0, 3, 0}, {0, 3, 0}, level);
  decodes_to(codec_of("eight_bit"), {0, -3, 0}, {0, -3, 0}, 0);
  decodes_to(codec_of("terngrad"), {0, -3, 0}, {0, -3, 0}, 0);
}
