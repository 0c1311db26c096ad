// tests/emulator/ptx/options.cpp — see options.hpp.
#include "ptx/options.hpp"

#include <algorithm>

#include "ptx/settings.hpp"

namespace emulator {

options read_options() {
  return {.check = setting("CHECK", 1) != 0,
          .undefined = setting("UNDEFINED", 1) != 0,
          .races = static_cast<unsigned>(setting("RACES", 2)),
          .fuse = setting("FUSE", 0) != 0,
          .order = static_cast<unsigned>(setting("ORDER", 0)),
          .quantum = setting("QUANTUM", 0),
          .resident = std::max(static_cast<unsigned>(setting("RESIDENT", 1)), 1u),
          .trace = setting("TRACE", 0) != 0};
}

}  // namespace emulator
