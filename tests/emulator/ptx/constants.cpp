// tests/emulator/ptx/constants.cpp — see constants.hpp.
#include "ptx/constants.hpp"

#include <bit>
#include <cctype>
#include <cstdlib>

namespace emulator {

namespace {

std::uint64_t bits_of(double value, std::string const& type) {
  if (type == "f32") return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return std::bit_cast<std::uint64_t>(value);
}

/// The value of a word such as 0f3F800000.
double hexadecimal(std::string const& word) {
  auto const bits = std::strtoull(word.c_str() + 2, nullptr, 16);
  auto const is_single = word[1] == 'f' || word[1] == 'F';
  return is_single ? std::bit_cast<float>(static_cast<std::uint32_t>(bits)) : std::bit_cast<double>(bits);
}

bool is_hexadecimal_float(std::string const& word) {
  return word.size() > 2 && word[0] == '0' && std::string("fFdD").find(word[1]) != std::string::npos;
}

}  // namespace

std::optional<std::uint64_t> constant_bits(std::string const& word, std::string const& type, bool minus) {
  if (word.empty() || !std::isdigit(static_cast<unsigned char>(word[0]))) return std::nullopt;
  if (is_hexadecimal_float(word) || word.find('.') != std::string::npos) {
    auto const value = is_hexadecimal_float(word) ? hexadecimal(word) : std::strtod(word.c_str(), nullptr);
    return bits_of(minus ? -value : value, type);
  }
  auto const value = std::strtoull(word.c_str(), nullptr, 0);
  return minus ? 0 - value : value;
}

}  // namespace emulator
