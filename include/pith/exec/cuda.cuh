// pith/exec/cuda.cuh — the kernels that run indices and blocks on a device.
#pragma once

#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/detail/cuda_team.cuh>
#include <pith/exec/detail/launch_list.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The maximum number of blocks in a grid.
inline constexpr std::uint64_t max_cuda_blocks = 0x7fffffff;

/// The bytes of shared memory that a body may use without a function attribute: 48 KiB minus the bytes of the team and,
/// in the kernel for many bodies, of the body.
template <class Body>
inline constexpr std::size_t usual_shared_bytes = 48 * 1024 - cuda_team::own_bytes - lane_table::stride(sizeof(Body));

/// An element-wise function object that also processes runs (core/detail/convert.hpp).
template <class F>
concept works_on_runs = requires(F const& f) { f.are_aligned(); };

/// A block body that calls `f` for runs of the elements 0 .. n - 1.
template <class F>
struct index_runs {
  struct memory {};
  F f;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    constexpr auto span = cuda_executor::items_per_block;
    auto const first = block * span;
    auto const own = f;
    team.for_each_run(block_size(n, first, span), true, [=](std::uint32_t i, auto const& run) { own(first + i, run); });
  }
};

/// A block body that calls `f` for the elements 0 .. n - 1, one per thread.
template <class F>
struct each_index {
  struct memory {};
  F f;
  std::uint64_t n;

  template <team Team>
  PITH_HD void operator()(Team const& team, memory&, std::uint64_t block) const {
    constexpr auto span = cuda_team::threads;
    auto const first = block * span;
    auto const own = f;
    team.for_each(block_size(n, first, span), [=](std::uint32_t i) { own(first + i); });
  }
};

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

/// Runs a block of a body with the shared memory of a kernel.
template <class Body>
__device__ void run_block(Body const& body, std::uint64_t block) {
  if constexpr (sizeof(typename Body::memory) <= usual_shared_bytes<Body>) {
    __shared__ typename Body::memory fast;
    body(cuda_team(), fast, block);
  } else {
    extern __shared__ __align__(128) unsigned char bytes[];
    body(cuda_team(), *reinterpret_cast<typename Body::memory*>(bytes), block);
  }
}

/// Runs one body. Without the bound of resident blocks, ptxas spills registers so that more blocks fit.
template <class Body>
__global__ void __launch_bounds__(cuda_team::threads, resident_blocks<Body>())
    block_kernel([[maybe_unused]] Body const body) {
#if defined(__CUDA_ARCH__)
  run_block(body, blockIdx.x);
#endif
}

#if defined(__CUDA_ARCH__)
/// Returns the lane to which a block of the grid belongs. A warp compares 32 lanes at a time.
__device__ inline std::uint32_t lane_of(lane_table const& table, std::uint32_t block) {
  std::uint32_t low = 0, lanes = table.lanes;
  while (lanes > 1) {
    auto const step = (lanes + 31) / 32, at = threadIdx.x % 32 * step;
    auto const is_below = at < lanes && table.first[low + at] <= block;
    auto const part = static_cast<std::uint32_t>(__popc(__ballot_sync(0xffffffffu, is_below)) - 1) * step;
    low += part;
    lanes = lanes - part < step ? lanes - part : step;
  }
  return low;
}
#endif

/// The number of blocks for which a multiprocessor must have enough registers in a lanes_kernel. A kernel whose body is in
/// shared memory needs more registers, but bodies that declare at most four blocks have enough.
template <class Body>
consteval unsigned resident_blocks_of_lanes() {
  constexpr auto blocks = resident_blocks<Body>();
  constexpr bool is_declared = requires { Body::resident_blocks; };
  return blocks > 4 || !is_declared ? blocks - 1 : blocks;
}

/// The number of 16-byte words of a body in a lane_table.
template <class Body>
inline constexpr auto body_words = static_cast<std::uint32_t>(lane_table::stride(sizeof(Body)) / sizeof(uint4));

/// Runs the bodies of several lanes.
template <class Body>
__global__ void __launch_bounds__(cuda_team::threads, resident_blocks_of_lanes<Body>())
    lanes_kernel([[maybe_unused]] lane_table const table) {
  constexpr auto words = body_words<Body>;
  static_assert(std::is_trivially_copyable_v<Body> && alignof(Body) <= sizeof(uint4) && words <= cuda_team::threads);
#if defined(__CUDA_ARCH__)
  __shared__ uint4 body[words];
  auto const lane = lane_of(table, blockIdx.x);
  if (threadIdx.x < words) body[threadIdx.x] = reinterpret_cast<uint4 const*>(table.bodies)[lane * words + threadIdx.x];
  __syncthreads();
  run_block(*reinterpret_cast<Body const*>(body), blockIdx.x - table.first[lane]);
#endif
}

/// Launches `blocks` blocks of a kernel with one argument, a body or a lane_table.
inline void launch(cudaStream_t stream, void const* kernel, std::uint64_t blocks, std::size_t shared_bytes,
                   void const* argument) {
  void* arguments[] = {const_cast<void*>(argument)};
  check_cuda(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(cuda_team::threads), arguments,
                              shared_bytes, stream),
             "cudaLaunchKernel");
}

}  // namespace detail

template <class F>
void cuda_executor::for_each_index(std::uint64_t n, F const& f) const {
  if constexpr (detail::works_on_runs<F>) {
    if (f.are_aligned()) return for_each_block(ext::blocks_for(n, items_per_block), detail::index_runs<F>{f, n});
  }
  for_each_block(ext::blocks_for(n, detail::cuda_team::threads), detail::each_index<F>{f, n});
}

template <class Body>
void cuda_executor::for_each_block(std::uint64_t blocks, Body const& body) const {
  if (blocks == 0) return;
  detail::require(blocks <= detail::max_cuda_blocks, "cuda_executor: a grid has at most ", detail::max_cuda_blocks,
                  " blocks, got ", blocks);
  constexpr auto bytes = sizeof(typename Body::memory);
  constexpr auto asked = bytes <= detail::usual_shared_bytes<Body> ? 0 : bytes;
  auto const kernels = detail::body_kernels{reinterpret_cast<void const*>(detail::block_kernel<Body>),
                                            reinterpret_cast<void const*>(detail::lanes_kernel<Body>)};
  if (asked > 0) {
    for (auto const* const kernel : {kernels.one, kernels.many}) {
      auto const status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, asked);
      check_cuda(status, "cudaFuncSetAttribute of shared memory");
    }
  }
  if (recorder_ != nullptr) return recorder_->add(kernels, asked, blocks, &body, sizeof body);
  detail::launch(stream_, kernels.one, blocks, asked, &body);
}

}}  // namespace pith::PITH_ABI

#include <pith/exec/detail/cuda_recorder.cuh>
