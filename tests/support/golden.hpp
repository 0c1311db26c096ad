// tests/support/golden.hpp — the reference vectors of tests/data/golden by their names.
#pragma once

#include "support/npy.hpp"
#include "support/vectors.hpp"

#include <string>
#include <vector>

namespace support {

inline std::string golden_path(std::string const& name) {
  return std::string(PITH_TEST_DATA) + "/golden/" + name + ".npy";
}
inline std::vector<double> golden(std::string const& name) { return widen(read_npy(golden_path(name)).values); }

}  // namespace support
