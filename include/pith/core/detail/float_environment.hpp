// pith/core/detail/float_environment.hpp — a scope with the default floating-point environment.
#pragma once

#include <pith/config.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// During the lifetime of this object, the thread rounds to nearest, keeps subnormal numbers and masks exceptions. The
/// destructor restores the caller's settings. Without this object, results would depend on the training framework,
/// which may flush subnormals to zero or trap invalid operations. Results could also differ between threads, since a
/// framework that changes the settings of one thread does not change those of a thread pool that already runs.
///
///   complexity  one read and one comparison if the caller has the default environment
///   properties  x86-64 and AArch64 only; other processors keep the caller's settings
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
  static constexpr std::uint32_t flags = 0x3f;    ///< the status flags of raised exceptions
  static constexpr std::uint32_t usual = 0x1f80;  ///< the default settings, with all exceptions masked
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

}}}  // namespace pith::PITH_ABI::detail
