// tests/emulator/ptx/settings.cpp — see settings.hpp.
#include "ptx/settings.hpp"

#include <cstdlib>
#include <string>

namespace emulator {

std::uint64_t setting(char const* name, std::uint64_t usual) {
  auto const* const text = std::getenv((std::string("PITH_EMULATOR_") + name).c_str());
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 0) : usual;
}

}  // namespace emulator
