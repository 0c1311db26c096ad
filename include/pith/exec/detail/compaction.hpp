// pith/exec/detail/compaction.hpp — vectorised search for the indices of large values.
#pragma once

#include <pith/core/team.hpp>
#include <pith/exec/isa.hpp>

#include <cstdint>

#if PITH_VECTOR_LOOPS
#include <immintrin.h>

/// The functions `at_least_...` append to the list `to`, in ascending order, each index i < n with magnitude_bits(x[i])
/// >= least. They return the length of the list. The functions for AVX-512 compress indices in a register, and then
/// store a whole vector, because instructions that compress into memory are slow on some CPUs.
namespace pith { inline namespace PITH_ABI { namespace detail {

template <class A>
inline std::uint32_t filter_magnitude_one_by_one(A const* x, std::uint32_t i, std::uint32_t n, bits_of<A> least,
                                                 std::uint32_t* to, std::uint32_t kept) {
  for (; i < n; ++i) {
    to[kept] = i;
    kept += magnitude_bits(x[i]) >= least ? 1 : 0;
  }
  return kept;
}

/// Appends `first` + i to the list `to`, which has `kept` indices, for each bit i of `mask` that is 1. Returns the new
/// length.
PITH_TARGET_AVX2 inline std::uint32_t append_ones(std::uint32_t mask, std::uint32_t first, std::uint32_t* to,
                                                  std::uint32_t kept) {
  for (; mask != 0; mask = _blsr_u32(mask)) to[kept++] = first + _tzcnt_u32(mask);
  return kept;
}

PITH_TARGET_AVX2 inline std::uint32_t filter_magnitude_avx2(float const* x, std::uint32_t n, std::uint32_t least,
                                                            std::uint32_t* to) {
  auto const magnitude = _mm256_set1_epi32(0x7fffffff);
  auto const below = _mm256_set1_epi32(static_cast<int>(least - 1));  // -1 for least = 0, so all elements pass
  std::uint32_t kept = 0, i = 0;
  for (; i + 32 <= n; i += 32) {
    std::uint32_t mask = 0;
    for (unsigned j = 0; j < 4; ++j) {
      auto const bits = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x + i + 8 * j));
      auto const hit = _mm256_cmpgt_epi32(_mm256_and_si256(bits, magnitude), below);
      mask |= static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(hit))) << (8 * j);
    }
    kept = append_ones(mask, i, to, kept);
  }
  return filter_magnitude_one_by_one(x, i, n, least, to, kept);
}

PITH_TARGET_AVX2 inline std::uint32_t filter_magnitude_avx2(double const* x, std::uint32_t n, std::uint64_t least,
                                                            std::uint32_t* to) {
  auto const magnitude = _mm256_set1_epi64x(0x7fffffffffffffff);
  auto const below = _mm256_set1_epi64x(static_cast<long long>(least - 1));
  std::uint32_t kept = 0, i = 0;
  for (; i + 32 <= n; i += 32) {
    std::uint32_t mask = 0;
    for (unsigned j = 0; j < 8; ++j) {
      auto const bits = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x + i + 4 * j));
      auto const hit = _mm256_cmpgt_epi64(_mm256_and_si256(bits, magnitude), below);
      mask |= static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(hit))) << (4 * j);
    }
    kept = append_ones(mask, i, to, kept);
  }
  return filter_magnitude_one_by_one(x, i, n, least, to, kept);
}

PITH_TARGET_AVX512 inline std::uint32_t filter_magnitude_avx512(float const* x, std::uint32_t n, std::uint32_t least,
                                                                std::uint32_t* to) {
  auto const magnitude = _mm512_set1_epi32(0x7fffffff), bound = _mm512_set1_epi32(static_cast<int>(least));
  auto const step = _mm512_set1_epi32(16);
  auto places = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  std::uint32_t kept = 0, i = 0;
  for (; i + 16 <= n; i += 16) {
    auto const bits = _mm512_and_epi32(_mm512_loadu_si512(x + i), magnitude);
    auto const mask = _mm512_cmpge_epu32_mask(bits, bound);
    _mm512_storeu_si512(to + kept, _mm512_maskz_compress_epi32(mask, places));
    kept += static_cast<std::uint32_t>(_mm_popcnt_u32(mask));
    places = _mm512_add_epi32(places, step);
  }
  return filter_magnitude_one_by_one(x, i, n, least, to, kept);
}

PITH_TARGET_AVX512 inline std::uint32_t filter_magnitude_avx512(double const* x, std::uint32_t n, std::uint64_t least,
                                                                std::uint32_t* to) {
  auto const magnitude = _mm512_set1_epi64(0x7fffffffffffffff);
  auto const bound = _mm512_set1_epi64(static_cast<long long>(least));
  auto const step = _mm256_set1_epi32(8);
  auto places = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  std::uint32_t kept = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    auto const bits = _mm512_and_epi64(_mm512_loadu_si512(x + i), magnitude);
    auto const mask = _mm512_cmpge_epu64_mask(bits, bound);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kept), _mm256_maskz_compress_epi32(mask, places));
    kept += static_cast<std::uint32_t>(_mm_popcnt_u32(mask));
    places = _mm256_add_epi32(places, step);
  }
  return filter_magnitude_one_by_one(x, i, n, least, to, kept);
}

}}}  // namespace pith::PITH_ABI::detail

#endif
