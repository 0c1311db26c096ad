// pith/exec/detail/philox.hpp — vectorised Philox4x32 for many blocks at once.
#pragma once

#include <pith/core/random.hpp>
#include <pith/exec/isa.hpp>

#include <cstdint>

#if PITH_VECTOR_LOOPS
#include <immintrin.h>

/// The functions write the random numbers of 8 or 16 blocks with consecutive counters. Each 32-bit word occupies a
/// 64-bit lane. The vector multiplication ignores the upper half of a lane, so no instruction needs to clear this half.
/// One Philox round takes two multiplications, two shifts, and two (AVX-512) or four (AVX2) exclusive-or operations.
/// Compilers do not find this form themselves.
namespace pith { inline namespace PITH_ABI { namespace detail {

PITH_TARGET_AVX2 inline void philox_8_avx2(random_block counter, philox_key key, int rounds, std::uint16_t* to) {
  auto const m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i c0[2], c1[2], c2[2], c3[2];
  for (int h = 0; h < 2; ++h) {
    auto const word = _mm256_set1_epi64x(static_cast<long long>(counter.word[0]) + 4 * h);
    c0[h] = _mm256_add_epi64(word, _mm256_set_epi64x(3, 2, 1, 0));
    c1[h] = _mm256_set1_epi64x(counter.word[1]);
    c2[h] = _mm256_set1_epi64x(counter.word[2]);
    c3[h] = _mm256_set1_epi64x(counter.word[3]);
  }
  for (int round = 0; round < rounds; ++round) {
    auto const k0 = _mm256_set1_epi64x(key.word[0]), k1 = _mm256_set1_epi64x(key.word[1]);
    for (int h = 0; h < 2; ++h) {
      auto const p0 = _mm256_mul_epu32(c0[h], m0), p1 = _mm256_mul_epu32(c2[h], m1);
      c0[h] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1[h]), k0);
      c2[h] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3[h]), k1);
      c1[h] = p1;
      c3[h] = p0;
    }
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  for (int h = 0; h < 2; ++h) {
    auto const low = _mm256_blend_epi32(c0[h], _mm256_slli_epi64(c1[h], 32), 0xaa);
    auto const high = _mm256_blend_epi32(c2[h], _mm256_slli_epi64(c3[h], 32), 0xaa);
    auto const even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
    auto* const out = reinterpret_cast<__m256i*>(to + 32 * h);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

PITH_TARGET_AVX512 inline void philox_16_avx512(random_block counter, philox_key key, int rounds, std::uint16_t* to) {
  auto const m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
  __m512i c0[2], c1[2], c2[2], c3[2];
  for (int h = 0; h < 2; ++h) {
    auto const word = _mm512_set1_epi64(static_cast<long long>(counter.word[0]) + 8 * h);
    c0[h] = _mm512_add_epi64(word, _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    c1[h] = _mm512_set1_epi64(counter.word[1]);
    c2[h] = _mm512_set1_epi64(counter.word[2]);
    c3[h] = _mm512_set1_epi64(counter.word[3]);
  }
  for (int round = 0; round < rounds; ++round) {
    auto const k0 = _mm512_set1_epi64(key.word[0]), k1 = _mm512_set1_epi64(key.word[1]);
    for (int h = 0; h < 2; ++h) {
      auto const p0 = _mm512_maskz_mul_epu32(0xff, c0[h], m0), p1 = _mm512_maskz_mul_epu32(0xff, c2[h], m1);
      c0[h] = _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(0xff, p1, 32), c1[h], k0, 0x96);
      c2[h] = _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(0xff, p0, 32), c3[h], k1, 0x96);
      c1[h] = p1;
      c3[h] = p0;
    }
    key.word[0] += 0x9E3779B9u;
    key.word[1] += 0xBB67AE85u;
  }
  auto const first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), last = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  for (int h = 0; h < 2; ++h) {
    auto const low = _mm512_mask_blend_epi32(0xaaaa, c0[h], _mm512_maskz_slli_epi64(0xff, c1[h], 32));
    auto const high = _mm512_mask_blend_epi32(0xaaaa, c2[h], _mm512_maskz_slli_epi64(0xff, c3[h], 32));
    _mm512_storeu_si512(to + 64 * h, _mm512_permutex2var_epi64(low, first, high));
    _mm512_storeu_si512(to + 64 * h + 32, _mm512_permutex2var_epi64(low, last, high));
  }
}

}}}  // namespace pith::PITH_ABI::detail

#endif
