// tests/emulator/ptx/rounding.hpp — the rounding of floating point while an instruction runs.
#pragma once

#include <cfenv>

namespace emulator {

/// 0 nearest, 1 towards zero, 2 down, 3 up. What is rounded is read from a slot and written to one while it lives, so
/// that compilers cannot move it.
class rounding {
 public:
  explicit rounding(unsigned mode) : old_(std::fegetround()) {
    static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[mode & 3]);
  }
  ~rounding() { std::fesetround(old_); }
  rounding(rounding const&) = delete;
  rounding& operator=(rounding const&) = delete;

 private:
  int old_;
};

}  // namespace emulator
