// pith/config.hpp — the language, the platform and the one host-device macro.
#pragma once

#include <bit>

#if __cplusplus < 202002L
#error "pith needs C++20: compile with -std=c++20 (for nvcc too)"
#endif

// Its parts as well; clang++ 14 says so of -ffinite-math-only alone.
#if (defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||              \
     defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)) && \
    !defined(PITH_ALLOW_FAST_MATH)
#error "pith: -ffast-math breaks NaN handling and equal bytes on all ranks; PITH_ALLOW_FAST_MATH goes on without them"
#endif

#if defined(__CUDACC__)
#define PITH_HD __host__ __device__
#else
#define PITH_HD
#endif

/// Asks for memory before it is needed; devices have other threads to run meanwhile.
#if defined(__CUDA_ARCH__)
#define PITH_PREFETCH(address) static_cast<void>(address)
#else
#define PITH_PREFETCH(address) __builtin_prefetch(address)
#endif

/// For host code that runs seldom: not to be copied into the loops that call it.
#if defined(__CUDACC__)
#define PITH_SELDOM
#else
#define PITH_SELDOM __attribute__((noinline))
#endif

/// Before a short loop of known length: g++ would write it out before it looks for vectors, and branch where it merges.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define PITH_ROLLED _Pragma("GCC unroll 1")
#else
#define PITH_ROLLED
#endif

static_assert(std::endian::native == std::endian::little,
              "pith: payloads are little-endian and so must the machine be");
