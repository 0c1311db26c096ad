// pith/config.hpp — checks of language and platform, and the compiler macros.
#pragma once

#include <bit>

#if __cplusplus < 202002L
#error "pith needs C++20: compile with -std=c++20 (for nvcc too)"
#include "pith_needs_cxx20"  // no such file, so the compiler stops here
#endif

// The flags that -ffast-math implies are rejected too, if the compiler defines macros for these flags. clang++ 14
// defines a macro only for -ffinite-math-only.
#if (defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||              \
     defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)) && \
    !defined(PITH_ALLOW_FAST_MATH)
#error "pith: -ffast-math (also part of -Ofast) breaks NaN and equal means: compile this file with -fno-fast-math"
#endif

// Words for the flags that change the code of inline functions: the instruction sets, fused multiply-add and fast-math.
// With PITH_RUNTIME, the words for instruction sets are empty, because a program and the library pith::runtime may have
// different instruction sets but must use the same names.
#if defined(PITH_RUNTIME)
#define PITH_VECTORS_OF_FLAGS
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define PITH_VECTORS_OF_FLAGS _avx512
#elif defined(__AVX512F__)
#define PITH_VECTORS_OF_FLAGS _avx512f
#elif defined(__AVX2__)
#define PITH_VECTORS_OF_FLAGS _avx2
#elif defined(__AVX__)
#define PITH_VECTORS_OF_FLAGS _avx
#elif defined(__SSE3__) || defined(__POPCNT__)
#define PITH_VECTORS_OF_FLAGS _sse4
#else
#define PITH_VECTORS_OF_FLAGS
#endif
#if defined(__FMA__) && !defined(PITH_RUNTIME)
#define PITH_FMA_OF_FLAGS _fma
#else
#define PITH_FMA_OF_FLAGS
#endif
#if defined(PITH_ALLOW_FAST_MATH)
#define PITH_MATH_OF_FLAGS _fast_math
#else
#define PITH_MATH_OF_FLAGS
#endif

/// The inline namespace of pith's names: v0, followed by the words for the flags, such as v0_avx2_fma. So source files
/// with different flags define different functions. With equal names, the linker would keep only one of the functions.
/// This function may contain instructions that the CPU lacks, or may treat NaN as a finite number.
#define PITH_ABI_OF(vectors, fma, math) v0##vectors##fma##math
#define PITH_ABI_IF(vectors, fma, math) PITH_ABI_OF(vectors, fma, math)
#define PITH_ABI PITH_ABI_IF(PITH_VECTORS_OF_FLAGS, PITH_FMA_OF_FLAGS, PITH_MATH_OF_FLAGS)

/// Marks functions for host and device. clang++ inlines them, because loops only use the instruction set of the function
/// into which they are inlined (exec/isa.hpp), and clang++'s `flatten` inlines only direct calls. g++'s inlines all.
#if defined(__CUDACC__)
#define PITH_HD __host__ __device__
#elif defined(__clang__) && defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(PITH_NO_ISA_DISPATCH)
#define PITH_HD __attribute__((always_inline))
#else
#define PITH_HD
#endif

/// Prefetches memory on a CPU. Does nothing on devices, which hide memory latency by running other threads.
#if defined(__CUDA_ARCH__)
#define PITH_PREFETCH(address) static_cast<void>(address)
#else
#define PITH_PREFETCH(address) __builtin_prefetch(address)
#endif

/// Marks a function that host code rarely calls, so that compilers do not inline it into hot loops.
#if defined(__CUDACC__)
#define PITH_NOINLINE
#else
#define PITH_NOINLINE __attribute__((noinline))
#endif

/// Stands before a short loop of constant length. Without the macro, g++ unrolls the loop before vectorisation, and
/// compiles a conditional expression in the loop to a branch.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define PITH_NO_UNROLL _Pragma("GCC unroll 1")
#else
#define PITH_NO_UNROLL
#endif

/// Stands before a loop that nvcc must not unroll.
#if defined(__CUDACC__)
#define PITH_CUDA_NO_UNROLL _Pragma("unroll 1")
#else
#define PITH_CUDA_NO_UNROLL
#endif

static_assert(std::endian::native == std::endian::little,
              "pith: payloads are little-endian, so the machine must be little-endian too");
