// tests/core/pack_test.cpp — symbols into bytes and back, for every width and count.
#include <pith/core/detail/pack.hpp>
#include <pith/core/values.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace {

/// Bit i of symbol j is bit bits j + i of the bytes.
std::vector<std::uint8_t> packed_bit_by_bit(std::vector<std::uint32_t> const& symbols, unsigned bits) {
  auto bytes = std::vector<std::uint8_t>((symbols.size() * bits + 7) / 8);
  for (std::size_t j = 0; j < symbols.size(); ++j) {
    for (unsigned i = 0; i < bits; ++i) {
      auto const at = j * bits + i;
      bytes[at / 8] = static_cast<std::uint8_t>(bytes[at / 8] | ((symbols[j] >> i & 1u) << at % 8));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("three symbols of three bits by hand") {
  std::uint32_t const symbols[] = {0b101, 0b011, 0b110};
  std::uint8_t bytes[] = {0xff, 0xff, 0x77};
  pith::detail::pack(symbols, 3, 3, bytes);
  CHECK(bytes[0] == 0b10011101);
  CHECK(bytes[1] == 0b00000001);
  CHECK(bytes[2] == 0x77);
}

TEST_CASE("symbols of all widths and counts lie bit by bit and come back") {
  auto random = std::mt19937_64(11);
  for (unsigned bits = 1; bits <= 32; ++bits) {
    for (std::size_t count = 0; count <= 8; ++count) {
      CAPTURE(bits);
      CAPTURE(count);
      auto symbols = std::vector<std::uint32_t>(count);
      for (auto& s : symbols) s = static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << bits) - 1));
      auto const expected = packed_bit_by_bit(symbols, bits);
      auto bytes = std::vector<std::uint8_t>(expected.size(), 0xff);
      pith::detail::pack(symbols.data(), count, bits, bytes.data());
      CHECK(bytes == expected);
      auto back = std::vector<std::uint32_t>(count);
      pith::detail::unpack(bytes.data(), count, bits, back.data());
      CHECK(back == symbols);
    }
  }
}

TEST_CASE("an octet is eight elements, and the last one may be shorter") {
  CHECK(pith::detail::octets(0) == 0);
  CHECK(pith::detail::octets(8) == 1);
  CHECK(pith::detail::octets(9) == 2);
  CHECK(pith::detail::octet_size(0, 9) == 8);
  CHECK(pith::detail::octet_size(1, 9) == 1);
  CHECK(pith::detail::octets(~std::uint64_t{0}) == std::uint64_t{1} << 61);
}

TEST_CASE("a packed stream takes whole bytes at its end only") {
  CHECK(pith::value_bytes<pith::packed<1>>(0) == 0);
  CHECK(pith::value_bytes<pith::packed<1>>(1) == 1);
  CHECK(pith::value_bytes<pith::packed<1>>(9) == 2);
  CHECK(pith::value_bytes<pith::packed<3>>(8) == 3);
  CHECK(pith::value_bytes<pith::packed<3>>(11) == 5);
  CHECK(pith::value_bytes<pith::packed<16>>(3) == 6);
  CHECK(pith::value_bytes<float>(3) == 12);
  CHECK(pith::value_bytes<double>(3) == 24);
}
