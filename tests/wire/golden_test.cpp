// tests/wire/golden_test.cpp — golden frames of floats, and that there is one of everything.
#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>

#include "wire/golden_frames.hpp"

using namespace support;
namespace wire = pith::wire;

TEST_CASE("golden frames of floats decode to their stored values, and their inputs encode to the same frames") {
  check_golden_frames<float>();
}

TEST_CASE("every codec that text can say has a golden frame") {
  auto words = std::string(" ");
  auto kinds = std::set<pith::element_kind>();
  for (auto const& path : frames()) {
    auto const frame = read_file(path);
    auto const h = wire::read_header(pith::span<std::byte const>(frame));
    words.append(h.codec).append(" ");
    kinds.insert(h.element);
  }
  for (auto const* word : {"cast<half>", "cast<bfloat16>", "one_bit(8)",        "one_bit(row)", "one_bit(column)",
                           " sign ",     " sign(zero)",    "summed_sign(zero)", " terngrad ",   "terngrad(0)",
                           "natural<8>", "natural<9>",     "eight_bit(",        "floor",        "unbiased",
                           "own)",       "dense",          "hadamard(",         "hadamard|",    "gamma",
                           "pareto",     "fine",           "ef(rated("}) {
    CAPTURE(word);
    CHECK(words.find(word) != std::string::npos);
  }
  CHECK(kinds.size() == 4);
  auto const check = [&](auto const& methods) {
    for (auto const& method : methods) {
      CAPTURE(method.form);
      CHECK(words.find(method.name()) != std::string::npos);
    }
  };
  check(pith::stage_listings);
  check(pith::exchange_listings);
}

TEST_CASE("the independent decoder notices a changed payload") {
  auto const file = read_file(std::string(PITH_TEST_DATA) + "/wire/v0/qsgd8.frame");
  auto raw = scalar::bytes(file.size());
  std::memcpy(raw.data(), file.data(), file.size());
  auto const whole = scalar::decode(scalar::read(raw));
  raw[88] ^= 1;  // the first symbol
  CHECK(!same_bytes(scalar::decode(scalar::read(raw)), whole));
}
