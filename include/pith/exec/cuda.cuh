// pith/exec/cuda.cuh — the kernels that run indices and blocks on a device.
#pragma once

#include <pith/core/team.hpp>
#include <pith/exec/stream.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace pith::inline v0 {

namespace detail {

/// Eight values that are read and written 16 bytes at a time.
template <class A>
struct alignas(16) aligned_group {
  A of[group];
};

/// The threads of a kernel's block; one Philox block a thread. Bodies are for hosts too, so what they call is there as
/// well, where it does nothing and is not called.
struct cuda_team {
  static constexpr std::uint32_t threads = 256;
  static constexpr bool specializes = false;

  template <class Count, class F>
  PITH_HD void for_each([[maybe_unused]] Count n, [[maybe_unused]] F const& f) const {
#if defined(__CUDA_ARCH__)
    for (std::uint32_t i = threadIdx.x; i < n; i += threads) f(i);
    __syncthreads();
#endif
  }

  template <class Count, class Width, class Row>
  PITH_HD void for_each_in(Count n, Width width, Row const& row) const {
    for_each(n, [&](std::uint32_t i) { row(i / width)(i); });
  }

  PITH_HD void random(draws const& from, std::uint64_t first, std::uint32_t groups, std::uint16_t* to) const {
    for_each(groups, [&](std::uint32_t j) {
      auto const block = from(first + j);
      for (std::uint32_t lane = 0; lane < 8; ++lane) to[8 * j + lane] = block.lane(lane);
    });
  }

  template <class Count, class Keep>
  PITH_HD std::uint32_t count(Count n, Keep const& keep) const {
    return compact(n, keep, [](std::uint32_t, std::uint32_t) {});
  }

  /// A thread an element: its place is behind those of its warp's lower lanes and of the warps before.
  template <class Count, class Keep, class Emit>
  PITH_HD std::uint32_t compact([[maybe_unused]] Count n, [[maybe_unused]] Keep const& keep,
                                [[maybe_unused]] Emit const& emit) const {
    std::uint32_t kept = 0;
#if defined(__CUDA_ARCH__)
    __shared__ std::uint32_t of_warp[threads / 32];
    auto const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (std::uint32_t first = 0; first < n; first += threads) {
      auto const i = first + threadIdx.x;
      auto const holds = i < n && keep(i);
      auto const votes = __ballot_sync(0xffffffffu, holds);
      if (lane == 0) of_warp[warp] = __popc(votes);
      __syncthreads();
      std::uint32_t place = kept + __popc(votes & ((1u << lane) - 1));
      for (std::uint32_t w = 0; w < threads / 32; ++w) {
        if (w < warp) place += of_warp[w];
        kept += of_warp[w];
      }
      if (holds) emit(i, place);
      __syncthreads();
    }
#endif
    return kept;
  }

  /// A thread a group, which it reads in 16 bytes at a time where it may.
  template <std::floating_point A, class Count>
  PITH_HD void negatives(A const* x, Count n, std::uint8_t* bytes) const {
    auto const* const aligned = reinterpret_cast<aligned_group<A> const*>(x);
    auto const whole = reinterpret_cast<std::uintptr_t>(x) % alignof(aligned_group<A>) == 0 ? n / 8 : 0;
    for_each(whole, [=](std::uint32_t g) {
      auto const values = aligned[g];
      bytes[g] = negative_byte(values.of, 0, group);
    });
    for_each(static_cast<std::uint32_t>(groups(n)) - whole,
             [=](std::uint32_t g) { bytes[whole + g] = negative_byte(x, whole + g, n); });
  }

  template <std::floating_point A, class Count>
  PITH_HD std::uint32_t at_least(A const* x, Count n, bits_of<A> least, std::uint32_t* to) const {
    return compact(
        n, [=](std::uint32_t i) { return magnitude_bits(x[i]) >= least; },
        [=](std::uint32_t i, std::uint32_t place) { to[place] = i; });
  }

  PITH_HD void tally(std::uint32_t* bins, std::uint32_t i, bool holds) const {
    if (holds) add(bins + i, 1);
  }
  PITH_HD std::uint32_t add([[maybe_unused]] std::uint32_t* word, [[maybe_unused]] std::uint32_t amount) const {
#if defined(__CUDA_ARCH__)
    return atomicAdd(word, amount);
#else
    return 0;
#endif
  }
};

static_assert(team<cuda_team>);

/// The most blocks that a grid may have.
inline constexpr std::uint64_t most_cuda_blocks = 0x7fffffff;

/// The shared memory that a kernel has without asking.
inline constexpr std::size_t usual_shared_bytes = 48 * 1024;

template <class F>
__global__ void __launch_bounds__(cuda_team::threads) index_kernel(F const f, std::uint64_t n) {
  auto const stride = std::uint64_t{gridDim.x} * cuda_team::threads;
  for (auto i = std::uint64_t{blockIdx.x} * cuda_team::threads + threadIdx.x; i < n; i += stride) f(i);
}

template <class Body>
__device__ void run_cuda_blocks(Body const& body, typename Body::memory& fast, std::uint64_t blocks) {
  for (std::uint64_t b = blockIdx.x; b < blocks; b += gridDim.x) body(cuda_team(), fast, b);
}

/// The blocks that a multiprocessor must have registers for: four, or fewer for a body that says so.
template <class Body>
consteval unsigned resident_blocks() {
  if constexpr (requires { Body::resident_blocks; }) {
    return Body::resident_blocks;
  } else {
    return 4;
  }
}

template <class Body>
__global__ void __launch_bounds__(cuda_team::threads, resident_blocks<Body>())
    block_kernel(Body const body, std::uint64_t blocks) {
  if constexpr (sizeof(typename Body::memory) <= usual_shared_bytes) {
    __shared__ typename Body::memory fast;
    run_cuda_blocks(body, fast, blocks);
  } else {
    extern __shared__ __align__(128) unsigned char bytes[];
    run_cuda_blocks(body, *reinterpret_cast<typename Body::memory*>(bytes), blocks);
  }
}

/// Launches kernel(work, count), `blocks` blocks of it or as many as there may be.
template <class Work>
void launch(cudaStream_t stream, void (*kernel)(Work, std::uint64_t), Work const& work, std::uint64_t count,
            std::uint64_t blocks, std::size_t shared_bytes) {
  void* arguments[] = {const_cast<Work*>(&work), &count};
  auto const grid = dim3(static_cast<unsigned>(std::min(blocks, most_cuda_blocks)));
  auto const* const code = reinterpret_cast<void const*>(kernel);
  check_cuda(cudaLaunchKernel(code, grid, dim3(cuda_team::threads), arguments, shared_bytes, stream),
             "cudaLaunchKernel");
}

}  // namespace detail

template <class F>
void cuda_executor::for_each_index(std::uint64_t n, F const& f) const {
  if (n == 0) return;
  auto const blocks = (n - 1) / detail::cuda_team::threads + 1;
  detail::launch<F>(stream_, detail::index_kernel<F>, f, n, blocks, 0);
}

template <class Body>
void cuda_executor::for_each_block(std::uint64_t blocks, Body const& body) const {
  if (blocks == 0) return;
  constexpr auto bytes = sizeof(typename Body::memory);
  constexpr auto asked = bytes <= detail::usual_shared_bytes ? 0 : bytes;
  auto* const kernel = detail::block_kernel<Body>;
  if (asked > 0) {
    auto const status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, asked);
    detail::check_cuda(status, "cudaFuncSetAttribute of shared memory");
  }
  detail::launch<Body>(stream_, kernel, body, blocks, blocks, asked);
}

}  // namespace pith::inline v0
