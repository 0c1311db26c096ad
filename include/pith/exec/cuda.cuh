// pith/exec/cuda.cuh — the kernels that run indices and blocks on a device.
#pragma once

#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/detail/cuda_team.cuh>
#include <pith/exec/detail/launch_list.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The maximum size of a kernel's arguments that every device accepts.
inline constexpr std::size_t max_argument_bytes = 4096;

/// The maximum number of blocks in a grid.
inline constexpr std::uint64_t max_cuda_blocks = 0x7fffffff;

/// The bytes of shared memory that a body may use without a function attribute: 48 KiB minus the bytes of the team and
/// of the body.
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

/// A body as words, for kernel arguments and shared memory.
template <class Body>
struct body_words {
  static constexpr auto count = static_cast<std::uint32_t>(lane_table::stride(sizeof(Body)) / sizeof(uint4));
  static_assert(std::is_trivially_copyable_v<Body> && alignof(Body) <= sizeof(uint4));
  static_assert(count <= cuda_team::threads && count * sizeof(uint4) + sizeof(lane_table) <= max_argument_bytes);

  uint4 words[count];

  PITH_HD Body const& body() const { return *reinterpret_cast<Body const*>(words); }
};

#if defined(__CUDA_ARCH__)
/// Sets the body of a block of the grid in shared memory. Returns the block's number among the blocks of this body.
template <class Body>
__device__ std::uint32_t set_body(body_words<Body>& staged, body_words<Body> const& own, lane_table const& lanes) {
  auto block = std::uint32_t{blockIdx.x};
  if (lanes.lanes > 1) {
    auto const lane = lanes.find(block);
    auto const* const from = reinterpret_cast<uint4 const*>(lanes.bodies) + lane * staged.count;
    if (threadIdx.x < staged.count) staged.words[threadIdx.x] = from[threadIdx.x];
    block -= lanes.first[lane];
  } else if (threadIdx.x == 0) {
    staged = own;
  }
  __syncthreads();
  return block;
}
#endif

/// Runs a body, or the bodies of several lanes. Without the bound of resident blocks, ptxas spills registers so that
/// more blocks fit.
template <class Body>
__global__ void __launch_bounds__(cuda_team::threads, resident_blocks<Body>())
    block_kernel([[maybe_unused]] body_words<Body> const own, [[maybe_unused]] lane_table const lanes) {
#if defined(__CUDA_ARCH__)
  __shared__ body_words<Body> staged;
  auto const block = std::uint64_t{set_body(staged, own, lanes)};
  if constexpr (sizeof(typename Body::memory) <= usual_shared_bytes<Body>) {
    __shared__ typename Body::memory fast;
    staged.body()(cuda_team(), fast, block);
  } else {
    extern __shared__ __align__(128) unsigned char bytes[];
    staged.body()(cuda_team(), *reinterpret_cast<typename Body::memory*>(bytes), block);
  }
#endif
}

/// Launches `blocks` blocks of a block_kernel for one body, which is given as words, or for the bodies of several lanes.
inline void launch(cudaStream_t stream, void const* kernel, std::uint64_t blocks, std::size_t shared_bytes,
                   void const* body, lane_table lanes) {
  void* arguments[] = {const_cast<void*>(body), &lanes};
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
  auto const* const kernel = reinterpret_cast<void const*>(detail::block_kernel<Body>);
  if (asked > 0) {
    auto const status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, asked);
    check_cuda(status, "cudaFuncSetAttribute of shared memory");
  }
  if (recorder_ != nullptr) return recorder_->add(kernel, asked, blocks, &body, sizeof body);
  auto own = detail::body_words<Body>();
  std::memcpy(&own, &body, sizeof body);
  detail::launch(stream_, kernel, blocks, asked, &own, {nullptr, nullptr, 1});
}

}}  // namespace pith::PITH_ABI

#include <pith/exec/detail/cuda_recorder.cuh>
