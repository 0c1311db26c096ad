// pith/exec/detail/warp_octet.cuh — octets that the lanes of a warp read and write together.
#pragma once

#include <pith/core/detail/runs.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// An aligned octet of one lane. All 32 lanes of a warp must call each function together, for neighbouring octets. Host
/// code never calls `write`.
struct warp_octet : aligned_octet {
  template <class T, class F>
  PITH_HD static void write([[maybe_unused]] T* p, [[maybe_unused]] F const& f) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(T) == 4) {
      write_in_pairs(p, f);
    } else if constexpr (sizeof(T) == 2) {
      write_joined(p, f);
    } else {
      aligned_octet::write(p, f);
    }
#endif
  }

#if defined(__CUDA_ARCH__)
 private:
  /// Two neighbouring lanes together write the even lane's octet, and then the odd lane's octet. Each lane writes half
  /// of each octet, so each instruction of the warp writes whole sectors of 32 bytes. If each lane wrote its own octet,
  /// an instruction would write half a sector per lane, and would take twice the time.
  template <class T, class F>
  __device__ static void write_in_pairs(T* p, F const& f) {
    values<T> own;
    for (std::uint32_t i = 0; i < octet; ++i) own.of[i] = f(i);
    uint4 half[2];
    __builtin_memcpy(half, &own, sizeof own);
    auto const odd = threadIdx.x % 2;
    auto const other = from_partner(odd ? half[0] : half[1]);
    __syncwarp();  // f may read the values that the partner replaces
    auto* const even = reinterpret_cast<uint4*>(p - octet * odd) + odd;
    even[0] = odd ? other : half[0];
    even[2] = odd ? half[1] : other;
  }
  __device__ static uint4 from_partner(uint4 v) {
    auto const from = [](unsigned word) { return __shfl_xor_sync(0xffffffffu, word, 1); };
    return {from(v.x), from(v.y), from(v.z), from(v.w)};
  }

  /// nvcc emits one store instruction per object of a 2-byte class. Therefore this function joins the objects to words.
  template <class T, class F>
  __device__ static void write_joined(T* p, F const& f) {
    struct alignas(16) quad {
      std::uint32_t of[octet / 2];
    } words;
    for (std::uint32_t i = 0; i < octet / 2; ++i) words.of[i] = bits(f(2 * i)) | bits(f(2 * i + 1)) << 16;
    *reinterpret_cast<quad*>(p) = words;
  }
  template <class T>
  __device__ static std::uint32_t bits(T value) {
    std::uint16_t word;
    __builtin_memcpy(&word, &value, sizeof word);
    return word;
  }
#endif
};

}}}  // namespace pith::PITH_ABI::detail
