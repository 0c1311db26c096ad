// pith/exec/thrust.hpp — an executor for any Thrust execution policy.
#pragma once

// Without nvcc, Thrust's device system is its C++ system. The default system, CUDA, needs the CUDA headers, which a
// host compiler may lack.
#if !defined(__CUDACC__) && !defined(THRUST_DEVICE_SYSTEM)
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif

#include <pith/core/executor.hpp>
#include <pith/exec/detail/host_memory.hpp>
#include <pith/exec/detail/host_team.hpp>

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/iterator_traits.h>
#include <thrust/memory.h>
#include <thrust/version.h>
#if defined(__CUDACC__)
#include <pith/exec/cuda.cuh>

#include <thrust/system/cuda/execution_policy.h>
#endif

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

static_assert(THRUST_VERSION >= 101702, "pith: Thrust must be 1.17.2 or newer, or CCCL 2.8 or newer");

namespace pith { inline namespace PITH_ABI {

namespace detail {

/// A type that Thrust accepts as the first argument of its algorithms.
template <class P>
concept thrust_policy = std::copyable<P> && std::derived_from<P, thrust::detail::execution_policy_base<P>>;

#if defined(__CUDACC__)
template <class P>
concept cuda_policy = std::derived_from<P, thrust::cuda_cub::execution_policy<P>>;
#else
template <class P>
concept cuda_policy = false;
#endif

inline namespace PITH_ISA_NAMESPACE {

template <class Body>
struct thrust_host_block {
  Body body;
  void operator()(std::uint64_t block) const { run_blocks(best_isa(), body, block, block + 1); }
};

}  // namespace PITH_ISA_NAMESPACE

/// The memory space that a policy's algorithms access.
template <class P>
struct thrust_memory : host_memory {
  static constexpr std::uint32_t items_per_block = 512;

  thrust_memory() = default;
  explicit thrust_memory(P const&) {}
};

#if defined(__CUDACC__)
template <cuda_policy P>
struct thrust_memory<P> : cuda_executor {
  thrust_memory() = default;
  explicit thrust_memory(P const& policy)
      : cuda_executor(thrust::cuda_cub::stream(const_cast<P&>(policy))) {}  // stream() only reads the policy
};
#endif

}  // namespace detail

inline namespace PITH_ISA_NAMESPACE {

/// An executor that runs work with thrust::for_each. With a host policy, thrust::for_each runs blocks, one thread per
/// block. With a CUDA policy, it runs indices, and blocks run in the kernels of cuda_executor, many threads per block,
/// because a block's memory is too large for a single device thread.
///
///   owns        a copy of the policy. A stream or other object of the policy must outlive the executor. A
///               default-constructed executor cannot run work
///   waits       for_each_index waits if the policy waits; par_nosync.on(stream) does not wait. for_each_block on a
///               device never waits
///   requires    -fopenmp for omp::par, and TBB for tbb::par
///   throws      what thrust::for_each throws. With omp::par, an exception of a body ends the program
template <detail::thrust_policy P>
class thrust_executor : public detail::thrust_memory<P> {
 public:
  static constexpr char const* name() { return "thrust"; }

  thrust_executor() = default;
  explicit thrust_executor(P const& policy) : detail::thrust_memory<P>(policy), policy_(policy) {}

  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const {
    if constexpr (detail::cuda_policy<P>) {
      each(n, f);
    } else {
      using block = detail::index_block<F>;
      for_each_block(ext::blocks_for(n, block::items_per_block), block{f, n});
    }
  }
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const {
    if constexpr (detail::cuda_policy<P>) {
      detail::thrust_memory<P>::for_each_block(blocks, body);
    } else {
      each(blocks, detail::thrust_host_block<Body>{body});
    }
  }

 private:
  template <class F>
  void each(std::uint64_t n, F const& f) const {
    thrust::for_each(*policy_, thrust::counting_iterator<std::uint64_t>(0), thrust::counting_iterator<std::uint64_t>(n),
                     f);
  }

  std::optional<P> policy_;
};

/// Returns an executor for a policy, for example thrust::seq, thrust::omp::par or thrust::cuda::par_nosync.on(stream).
template <detail::thrust_policy P>
thrust_executor<P> on(P const& policy) {
  return thrust_executor<P>(policy);
}

}  // namespace PITH_ISA_NAMESPACE

namespace detail {

template <class System>
struct space_of_system {
  using type = host_space;
};
#if defined(__CUDACC__)
template <>
struct space_of_system<thrust::cuda_cub::tag> {
  using type = device_space;
};
#endif

}  // namespace detail

/// Returns a span of a Thrust vector's elements. The span's type contains their memory space. In source files for nvcc,
/// a device_vector is in device memory.
template <class Vector>
  requires requires(Vector& v) { thrust::raw_pointer_cast(v.data()); }
auto view(Vector& v) {
  using system = typename thrust::iterator_system<typename std::remove_const_t<Vector>::iterator>::type;
  auto* const data = thrust::raw_pointer_cast(v.data());
  return span<std::remove_pointer_t<decltype(thrust::raw_pointer_cast(v.data()))>,
              typename detail::space_of_system<system>::type>(data, v.size());
}

}}  // namespace pith::PITH_ABI
