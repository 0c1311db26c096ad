// tests/support/emulated_block.hpp — host threads in place of a CUDA block's threads, for the code of its team.
//
// Include the code under test after this header, and no header of CUDA.
#pragma once

#include <pith/core/team.hpp>

#include <atomic>
#include <barrier>
#include <bit>
#include <cstdint>
#include <thread>
#include <vector>

namespace support {

inline constexpr std::uint32_t emulated_threads = 256;

struct emulated_warp {
  std::barrier<> all{32};
  std::uint64_t words[32];
};

/// The shared state of a block's threads, which run concurrently and wait for their block or their warp.
struct emulated_block {
  std::barrier<> all{emulated_threads};
  std::vector<std::uint32_t> votes = std::vector<std::uint32_t>(emulated_threads / 32);
  emulated_warp warps[emulated_threads / 32];
};

struct thread_index {
  std::uint32_t x;
};

}  // namespace support

struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};

inline support::emulated_block* this_block;
inline thread_local support::thread_index threadIdx;

inline void __syncthreads() { this_block->all.arrive_and_wait(); }
inline void __syncwarp() { this_block->warps[threadIdx.x / 32].all.arrive_and_wait(); }

/// All warps vote equally often, so that one barrier suffices for all.
inline std::uint32_t __ballot_sync(std::uint32_t, bool vote) {
  auto const word = std::atomic_ref(this_block->votes[threadIdx.x / 32]);
  if (vote) word.fetch_or(1u << threadIdx.x % 32);
  __syncthreads();
  auto const votes = word.load();
  __syncthreads();
  if (threadIdx.x % 32 == 0) word.store(0);
  __syncthreads();
  return votes;
}
template <class T>
T __shfl_sync(std::uint32_t, T word, std::uint32_t lane) {
  auto& warp = this_block->warps[threadIdx.x / 32];
  warp.words[threadIdx.x % 32] = word;
  warp.all.arrive_and_wait();
  auto const of_lane = static_cast<T>(warp.words[lane]);
  warp.all.arrive_and_wait();
  return of_lane;
}
/// A lane without a partner at that distance gets its own word.
template <class T>
T __shfl_down_sync(std::uint32_t all, T word, std::uint32_t distance) {
  auto const lane = threadIdx.x % 32;
  return __shfl_sync(all, word, lane + distance < 32 ? lane + distance : lane);
}
template <class T>
T __shfl_up_sync(std::uint32_t all, T word, std::uint32_t distance) {
  auto const lane = threadIdx.x % 32;
  return __shfl_sync(all, word, lane >= distance ? lane - distance : lane);
}
template <class T>
T __shfl_xor_sync(std::uint32_t all, T word, std::uint32_t flipped) {
  return __shfl_sync(all, word, threadIdx.x % 32 ^ flipped);
}
inline std::uint32_t __popc(std::uint32_t word) { return static_cast<std::uint32_t>(std::popcount(word)); }
inline int __ffs(std::uint32_t word) { return std::countr_zero(word) + 1; }
inline std::uint32_t atomicAdd(std::uint32_t* word, std::uint32_t amount) {
  return std::atomic_ref(*word).fetch_add(amount);
}

/// Atomic operations here are already sequentially consistent.
inline void __threadfence() {}

/// The parts of CUB that the team uses.
#define CUB_NS_QUALIFIER ::cub
namespace cub {

template <class T>
struct WarpScan {
  struct TempStorage {};
  explicit WarpScan(TempStorage&) {}

  void ExclusiveSum(T own, T& before, T& all) const {
    auto through = own;
    for (auto distance = 1u; distance < 32; distance *= 2) {
      auto const below = __shfl_up_sync(0xffffffffu, through, distance);
      if (threadIdx.x % 32 >= distance) through += below;
    }
    before = through - own;
    all = __shfl_sync(0xffffffffu, through, 31);
  }
};

}  // namespace cub

#define __CUDA_ARCH__ 900
#define __device__
#define __shared__ static

namespace support {

/// Calls run() on each thread of a block.
template <class Run>
void emulate(Run const& run) {
  auto block = emulated_block();
  this_block = &block;
  auto threads = std::vector<std::jthread>();
  for (std::uint32_t t = 0; t < emulated_threads; ++t) {
    threads.emplace_back([&run, t] {
      threadIdx.x = t;
      run();
    });
  }
}

}  // namespace support
