// tests/emulator/ptx/constants.hpp — numbers in PTX.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace emulator {

/// The bits of a number such as 12, 0x1F, 1.5, 0f3F800000 or 0d3FF0000000000000 as a type without its dot; none of a
/// word that is no number.
std::optional<std::uint64_t> constant_bits(std::string const& word, std::string const& type, bool minus);

}  // namespace emulator
