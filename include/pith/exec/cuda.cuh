// pith/exec/cuda.cuh — the kernels that run indices and blocks on a device.
#pragma once

#include <pith/exec/cuda_executor.hpp>
#include <pith/exec/detail/cuda_team.cuh>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// The maximum number of blocks in a grid.
inline constexpr std::uint64_t max_cuda_blocks = 0x7fffffff;

/// The bytes of shared memory that a body may use without a function attribute: 48 KiB minus the team's own bytes.
inline constexpr std::size_t usual_shared_bytes = 48 * 1024 - cuda_team::own_bytes;

/// Without the bound of four resident blocks, ptxas spills registers so that more blocks fit.
template <class F>
__global__ void __launch_bounds__(cuda_team::threads, 4) index_kernel(F const f, std::uint64_t n) {
  auto const i = std::uint64_t{blockIdx.x} * cuda_team::threads + threadIdx.x;
  if (i < n) f(i);
}

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
__global__ void __launch_bounds__(cuda_team::threads, resident_blocks<Body>()) block_kernel(Body const body) {
  auto const block = std::uint64_t{blockIdx.x};
  if constexpr (sizeof(typename Body::memory) <= usual_shared_bytes) {
    __shared__ typename Body::memory fast;
    body(cuda_team(), fast, block);
  } else {
    extern __shared__ __align__(128) unsigned char bytes[];
    body(cuda_team(), *reinterpret_cast<typename Body::memory*>(bytes), block);
  }
}

/// Launches `blocks` blocks of a kernel. `arguments` contains the addresses of the kernel's arguments.
inline void launch(cudaStream_t stream, void const* kernel, void** arguments, std::uint64_t blocks,
                   std::size_t shared_bytes) {
  require(blocks <= max_cuda_blocks, "cuda_executor: a grid has at most ", max_cuda_blocks, " blocks, got ", blocks);
  check_cuda(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(cuda_team::threads), arguments,
                              shared_bytes, stream),
             "cudaLaunchKernel");
}

}  // namespace detail

template <class F>
void cuda_executor::for_each_index(std::uint64_t n, F const& f) const {
  if (n == 0) return;
  if constexpr (detail::works_on_runs<F>) {
    if (f.are_aligned()) return for_each_block((n - 1) / items_per_block + 1, detail::index_runs<F>{f, n});
  }
  auto const blocks = (n - 1) / detail::cuda_team::threads + 1;
  void* arguments[] = {const_cast<F*>(&f), &n};
  detail::launch(stream_, reinterpret_cast<void const*>(detail::index_kernel<F>), arguments, blocks, 0);
}

template <class Body>
void cuda_executor::for_each_block(std::uint64_t blocks, Body const& body) const {
  if (blocks == 0) return;
  constexpr auto bytes = sizeof(typename Body::memory);
  constexpr auto asked = bytes <= detail::usual_shared_bytes ? 0 : bytes;
  auto const* const kernel = reinterpret_cast<void const*>(detail::block_kernel<Body>);
  if (asked > 0) {
    auto const status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, asked);
    check_cuda(status, "cudaFuncSetAttribute of shared memory");
  }
  void* arguments[] = {const_cast<Body*>(&body)};
  detail::launch(stream_, kernel, arguments, blocks, asked);
}

}}  // namespace pith::PITH_ABI
