// pith/exec/cuda.cuh — the kernels that run indices and blocks on a device.
#pragma once

#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/detail/cuda_team.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pith::inline v0 {

namespace detail {

/// The maximum number of blocks in a grid.
inline constexpr std::uint64_t most_cuda_blocks = 0x7fffffff;

/// The bytes of shared memory that a body may use without a function attribute: 48 KiB minus the team's own bytes.
inline constexpr std::size_t usual_shared_bytes = 48 * 1024 - cuda_team::own_bytes;

template <class F>
__global__ void __launch_bounds__(cuda_team::threads) index_kernel(F const f, std::uint64_t n) {
  auto const stride = std::uint64_t{gridDim.x} * cuda_team::threads;
  for (auto i = std::uint64_t{blockIdx.x} * cuda_team::threads + threadIdx.x; i < n; i += stride) f(i);
}

template <class Body>
__device__ void run_cuda_blocks(Body const& body, typename Body::memory& fast, std::uint64_t blocks) {
  for (std::uint64_t b = blockIdx.x; b < blocks; b += gridDim.x) body(cuda_team(), fast, b);
}

/// The number of blocks for which a multiprocessor must have enough registers. A body may declare this number; the
/// default is four.
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

/// Launches kernel(work, count) with min(blocks, most_cuda_blocks) blocks.
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
    check_cuda(status, "cudaFuncSetAttribute of shared memory");
  }
  detail::launch<Body>(stream_, kernel, body, blocks, blocks, asked);
}

}  // namespace pith::inline v0
