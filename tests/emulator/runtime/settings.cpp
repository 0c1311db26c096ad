// tests/emulator/runtime/settings.cpp — settings of the emulator, read when the library is loaded.
#include "ptx/settings.hpp"
#include "runtime/schedule.hpp"

namespace emulator {

namespace {

/// LATE: 0 runs work where it is given, 1 and 2 where something waits, from the oldest or newest stream; more: a seed.
void set_schedule() {
  auto const late = setting("LATE", 0);
  auto& all = schedule::of_process();
  all.set_late(late > 0);
  all.take_turns(late == 2 ? turn::newest : late > 2 ? turn::drawn : turn::oldest, static_cast<unsigned>(late));
}

struct at_load {
  at_load() {
    set_schedule();
  }
} const read_them;

}  // namespace

}  // namespace emulator
