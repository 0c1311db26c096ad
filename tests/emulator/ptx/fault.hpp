// tests/emulator/ptx/fault.hpp — what a kernel did that a device does not do.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace emulator {

/// The text describes what happened; machine::run adds where.
struct fault : std::runtime_error {
  enum class kind { other, illegal_address, misaligned };
  explicit fault(std::string const& text, kind k = kind::other) : std::runtime_error(text), what_kind(k) {}
  kind what_kind;
};

/// 0x and hexadecimal digits.
std::string hex(std::uint64_t v);

}  // namespace emulator
