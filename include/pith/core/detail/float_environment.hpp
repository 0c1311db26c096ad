// pith/core/detail/float_environment.hpp — the same arithmetic on every thread, however its caller has set the processor.
#pragma once

#include <cstdint>

namespace pith::inline v0::detail {

/// While it lives, this thread rounds to nearest, keeps subnormal numbers and raises no signal; then it is as it was
/// found. Engines flush subnormals to zero or trap invalid operations, and threads of a pool were made before that.
///
///   complexity  a read and a comparison, unless the caller has set something else
///   properties  done on x86-64 and AArch64; other processors go on as they are set
class default_float_environment {
 public:
#if defined(__x86_64__)
  default_float_environment() : found_(__builtin_ia32_stmxcsr()) {
    if ((found_ & ~flags) != usual) __builtin_ia32_ldmxcsr(usual);
  }
  ~default_float_environment() {
    if ((found_ & ~flags) != usual) __builtin_ia32_ldmxcsr(found_);
  }

 private:
  static constexpr std::uint32_t flags = 0x3f;    ///< of exceptions that were raised
  static constexpr std::uint32_t usual = 0x1f80;  ///< all exceptions are masked
  std::uint32_t found_;
#elif defined(__aarch64__)
  default_float_environment() {
    asm volatile("mrs %0, fpcr" : "=r"(found_));
    if (found_ != 0) set(0);
  }
  ~default_float_environment() {
    if (found_ != 0) set(found_);
  }

 private:
  static void set(std::uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control) : "memory"); }
  std::uint64_t found_;
#else
  default_float_environment() {}
  ~default_float_environment() {}

 private:
#endif
  default_float_environment(default_float_environment const&) = delete;
  default_float_environment& operator=(default_float_environment const&) = delete;
};

}  // namespace pith::inline v0::detail
