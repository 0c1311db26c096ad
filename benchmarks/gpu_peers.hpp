// benchmarks/gpu_peers.hpp — operations of CUB and of memory, for comparison with codecs.
#pragma once

#include "yardstick.hpp"

#include <pith/exec/cuda_executor.hpp>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_select.cuh>
#include <cub/device/device_transform.cuh>
#if __has_include(<cub/device/device_topk.cuh>)
#include <cuda/__execution/determinism.h>
#include <cuda/__execution/output_ordering.h>
#include <cuda/__execution/require.h>
#include <cub/device/device_topk.cuh>
#include <cuda/stream_ref>
#endif

#include <cuda_bf16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace bench {

/// 16 bytes per thread at a time.
__global__ void __launch_bounds__(256) copy_kernel(uint4 const* from, uint4* to, std::size_t n) {
  auto const stride = std::size_t{gridDim.x} * 256;
  for (auto i = std::size_t{blockIdx.x} * 256 + threadIdx.x; i < n; i += stride) to[i] = from[i];
}

struct to_bfloat16 {
  __device__ __nv_bfloat16 operator()(float x) const { return __float2bfloat16_rn(x); }
};
struct exceeds {
  float bound;
  __device__ bool operator()(float x) const { return x > bound || x < -bound; }
};

/// CUB's two-phase calls on one set of buffers: the first returns the bytes of temporary memory, the second does the
/// work.
class peer_calls {
 public:
  using E = pith::cuda_executor;

  /// 1 % of normal x are beyond this.
  static constexpr float bound = 2.5758f;

  peer_calls(E const& exec, std::size_t n)
      : exec_(exec),
        n_(n),
        k_(std::max<std::size_t>(1, n / 100)),
        values_(exec, n),
        indices_(exec, n),
        sorted_(exec, n),
        one_(exec, 2) {}

  cudaError_t reduce(float const* x, void* temporary, std::size_t& bytes) const {
    return cub::DeviceReduce::Sum(temporary, bytes, x, values_.data(), n_, exec_.stream());
  }
  cudaError_t select(float const* x, void* temporary, std::size_t& bytes) const {
    return cub::DeviceSelect::If(temporary, bytes, x, values_.data(), one_.data(), static_cast<std::int64_t>(n_),
                                 exceeds{bound}, exec_.stream());
  }
  /// Keys are not converted to magnitudes, in CUB's favour.
  cudaError_t sort(float const* x, void* temporary, std::size_t& bytes) const {
    return cub::DeviceRadixSort::SortPairsDescending(temporary, bytes, x, values_.data(), indices_.data(),
                                                     sorted_.data(), n_, 0, 32, exec_.stream());
  }
  cudaError_t transform(float const* x, void* temporary, std::size_t& bytes) const {
    bytes = 1;
    if (temporary == nullptr) return cudaSuccess;
    auto* const to = reinterpret_cast<__nv_bfloat16*>(values_.data());
    return cub::DeviceTransform::Transform(x, to, n_, to_bfloat16{}, exec_.stream());
  }
#if __has_include(<cub/device/device_topk.cuh>)
  /// In any order, and with any choice among equal ones.
  cudaError_t top_k(float const* x, void* temporary, std::size_t& bytes) const {
    namespace wants = cuda::execution;
    auto const requirements = wants::require(wants::determinism::not_guaranteed, wants::output_ordering::unsorted);
    auto const env = cuda::std::execution::env{cuda::stream_ref{exec_.stream()}, requirements};
    return cub::DeviceTopK::MaxPairs(temporary, bytes, x, values_.data(), indices_.data(), sorted_.data(), n_, k_, env);
  }
#endif

  void copy(float const* x) const {
    copy_kernel<<<static_cast<unsigned>(std::min<std::size_t>(n_ / 1024 + 1, 132 * 32)), 256, 0, exec_.stream()>>>(
        reinterpret_cast<uint4 const*>(x), reinterpret_cast<uint4*>(values_.data()), n_ / 4);
    pith::check_cuda(cudaGetLastError(), "copy_kernel");
  }

  std::size_t k() const { return k_; }

 private:
  E exec_;
  std::size_t n_, k_;
  pith::buffer<float, E> values_;
  pith::buffer<std::uint32_t, E> indices_, sorted_;
  pith::buffer<std::int64_t, E> one_;
};

}  // namespace bench
