// tests/emulator/runtime/settings.cpp — settings of the emulator, read when the library is loaded.
#include "runtime/settings.hpp"

#include "ptx/machine.hpp"
#include "runtime/schedule.hpp"

#include <cstdlib>
#include <string>

namespace emulator {

std::uint64_t setting(char const* name, std::uint64_t usual) {
  auto const* const text = std::getenv((std::string("PITH_EMULATOR_") + name).c_str());
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 0) : usual;
}

namespace {

void set_machine() {
  opt.check = setting("CHECK", 1) != 0;
  opt.undefined = setting("UNDEFINED", 1) != 0;
  opt.races = static_cast<unsigned>(setting("RACES", 1));
  opt.fuse = setting("FUSE", 0) != 0;
  opt.trace = setting("TRACE", 0) != 0;
  opt.order = static_cast<unsigned>(setting("ORDER", 0));
  opt.quantum = setting("QUANTUM", 0);
  opt.resident = static_cast<unsigned>(setting("RESIDENT", 1));
}

/// LATE: 0 runs work where it is given, 1 and 2 where something waits, from the oldest or newest stream; more: a seed.
void set_schedule() {
  auto const late = setting("LATE", 0);
  auto& all = schedule::of_process();
  all.set_late(late > 0);
  all.take_turns(late == 2 ? turn::newest : late > 2 ? turn::drawn : turn::oldest, static_cast<unsigned>(late));
}

struct at_load {
  at_load() {
    set_machine();
    set_schedule();
  }
} const read_them;

}  // namespace

}  // namespace emulator
