// pith/exec/isa.hpp — run-time choice of the vector instruction set for host loops.
#pragma once

#include <pith/core/error.hpp>

#include <algorithm>
#include <cstdint>

/// The instruction set that the translation unit's flags enable.
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define PITH_ISA_OF_FLAGS avx512
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__)
#define PITH_ISA_OF_FLAGS avx2
#else
#define PITH_ISA_OF_FLAGS baseline
#endif

/// PITH_ISA_DISPATCH is 1 if loops are compiled for several instruction sets, and the program selects one set at run
/// time. PITH_VECTOR_LOOPS is 1 if loops with intrinsics are compiled. Both macros are 0 in an unoptimised build, where
/// vector instructions do not make loops faster.
#if !defined(__x86_64__) || !defined(__OPTIMIZE__)
#define PITH_ISA_DISPATCH 0
#define PITH_VECTOR_LOOPS 0
#elif !defined(PITH_NO_ISA_DISPATCH)
#define PITH_ISA_DISPATCH 1
#define PITH_VECTOR_LOOPS 1
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__)
#define PITH_ISA_DISPATCH 0
#define PITH_VECTOR_LOOPS 1
#else
#define PITH_ISA_DISPATCH 0
#define PITH_VECTOR_LOOPS 0
#endif

#if PITH_VECTOR_LOOPS
#define PITH_TARGET_AVX2 __attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt")))
#define PITH_AVX512_FEATURES "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,lzcnt,popcnt"
#if defined(__clang__)
#define PITH_TARGET_AVX512 __attribute__((target(PITH_AVX512_FEATURES)))
#else
#define PITH_TARGET_AVX512 __attribute__((target(PITH_AVX512_FEATURES ",prefer-vector-width=512")))
#endif
#endif

/// The name of an inline namespace for host executors. The name contains the instruction set that the flags enable, and
/// whether loops are compiled for further sets. So the loops of two source files have different names if the files
/// differ in PITH_NO_ISA_DISPATCH or in optimisation. PITH_ABI distinguishes -march flags (config.hpp), except with
/// PITH_RUNTIME, where only this name does.
#define PITH_ISA_NAMESPACE_OF(flags, dispatch) compiled_for_##flags##_##dispatch
#define PITH_ISA_NAMESPACE_IF(flags, dispatch) PITH_ISA_NAMESPACE_OF(flags, dispatch)
#if PITH_ISA_DISPATCH
#define PITH_ISA_NAMESPACE PITH_ISA_NAMESPACE_IF(PITH_ISA_OF_FLAGS, and_more)
#else
#define PITH_ISA_NAMESPACE PITH_ISA_NAMESPACE_IF(PITH_ISA_OF_FLAGS, alone)
#endif

namespace pith { inline namespace PITH_ABI {

/// The instruction sets of host loops, in ascending order.
enum class isa : std::uint8_t { baseline, avx2, avx512 };

constexpr char const* isa_name(isa level) {
  return level == isa::avx512 ? "avx512" : level == isa::avx2 ? "avx2" : "baseline";
}

inline namespace PITH_ISA_NAMESPACE {

/// The instruction set that this translation unit's flags enable. Host loops are compiled for this set or larger sets.
inline constexpr isa min_isa = PITH_VECTOR_LOOPS ? isa::PITH_ISA_OF_FLAGS : isa::baseline;

/// The largest instruction set that this CPU supports and for which this translation unit compiles loops.
inline isa best_isa() {
#if PITH_ISA_DISPATCH
  static isa const best = [] {
    __builtin_cpu_init();
    auto const has_avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    auto const has_avx512 = has_avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl");
    return std::max(min_isa, has_avx512 ? isa::avx512 : has_avx2 ? isa::avx2 : isa::baseline);
  }();
  return best;
#else
  return min_isa;
#endif
}

}  // namespace PITH_ISA_NAMESPACE

namespace detail { inline namespace PITH_ISA_NAMESPACE {

/// Returns `level`. Throws std::invalid_argument if this CPU or this build does not support the level.
inline isa runnable(isa level) {
  require(level <= best_isa(), "isa: level must be at most ", isa_name(best_isa()), " on this CPU and build, got ",
          isa_name(level));
  return level;
}

}}  // namespace detail::PITH_ISA_NAMESPACE
}}  // namespace pith::PITH_ABI
