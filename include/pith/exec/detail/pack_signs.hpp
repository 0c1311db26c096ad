// pith/exec/detail/pack_signs.hpp — vectorised sign masks: one bit per element, which is set if the element is negative.
#pragma once

#include <pith/core/detail/pack.hpp>
#include <pith/exec/isa.hpp>

#include <cstdint>

#if PITH_VECTOR_LOOPS
#include <immintrin.h>

/// The functions `pack_signs_...` process the leading elements of x that fill whole vectors: they set bit i of `bytes`
/// to x[i] < 0. Each function returns the number of processed elements.
namespace pith { inline namespace PITH_ABI { namespace detail {

PITH_TARGET_AVX2 inline std::uint32_t pack_signs_avx2(float const* x, std::uint32_t n, std::uint8_t* bytes) {
  std::uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    auto const below = _mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_setzero_ps(), _CMP_LT_OQ);
    bytes[i / 8] = static_cast<std::uint8_t>(_mm256_movemask_ps(below));
  }
  return i;
}

/// Returns a mask in which bit i is x[i] < 0, for i < 4. This function is not a lambda, because nvcc drops the target
/// attribute when it rewrites a lambda for the host compiler.
PITH_TARGET_AVX2 inline int below_zero_of_four(double const* x) {
  return _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(x), _mm256_setzero_pd(), _CMP_LT_OQ));
}

PITH_TARGET_AVX2 inline std::uint32_t pack_signs_avx2(double const* x, std::uint32_t n, std::uint8_t* bytes) {
  std::uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    bytes[i / 8] = static_cast<std::uint8_t>(below_zero_of_four(x + i) | below_zero_of_four(x + i + 4) << 4);
  }
  return i;
}

PITH_TARGET_AVX512 inline std::uint32_t pack_signs_avx512(float const* x, std::uint32_t n, std::uint8_t* bytes) {
  std::uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    auto const below = _mm512_cmp_ps_mask(_mm512_loadu_ps(x + i), _mm512_setzero_ps(), _CMP_LT_OQ);
    __builtin_memcpy(bytes + i / 8, &below, 2);
  }
  return i;
}

PITH_TARGET_AVX512 inline std::uint32_t pack_signs_avx512(double const* x, std::uint32_t n, std::uint8_t* bytes) {
  std::uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    bytes[i / 8] = _mm512_cmp_pd_mask(_mm512_loadu_pd(x + i), _mm512_setzero_pd(), _CMP_LT_OQ);
  }
  return i;
}

}}}  // namespace pith::PITH_ABI::detail

#endif
