// pith/exec/cuda_executor.hpp — a CUDA stream as an executor: memory functions for any compiler, kernels for nvcc.
#pragma once

#include <pith/core/error.hpp>
#include <pith/core/executor.hpp>
#include <pith/exec/cuda_error.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace pith { inline namespace PITH_ABI {

class cuda_executor;

namespace detail {

struct body_kernels;  // exec/detail/launch_list.hpp

/// Collects the work of an executor, which `launch` submits to the stream (exec/detail/cuda_recorder.cuh).
class cuda_recorder {
 public:
  cuda_recorder() = default;
  cuda_recorder(cuda_recorder const&) = delete;
  cuda_recorder& operator=(cuda_recorder const&) = delete;
  virtual ~cuda_recorder() = default;

  /// Removes all work. Later work is for the executor's stream.
  virtual void begin(cuda_executor const& exec) = 0;
  virtual void begin_lane() = 0;
  virtual void add(body_kernels const& kernels, std::size_t shared_bytes, std::uint64_t blocks, void const* body,
                   std::size_t bytes) = 0;
  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;
  virtual void fill(void* to, std::byte value, std::size_t bytes) = 0;
  virtual void launch() = 0;
};

}  // namespace detail

/// An executor that submits its work to a CUDA stream. The stream's device must be the current device.
///
///   owns        no memory and no stream. The stream must outlive the executor and the executor's copies. A
///               default-constructed executor uses CUDA's default stream
///   waits       only in download, wait, allocate and deallocate. A CUDA graph can capture all other functions
///   memory      upload may read its host source until wait() returns. In a CUDA graph, each replay of an upload reads
///               the source again. Source and target of a copy must not overlap
///   requires    nvcc for code that starts kernels. With other compilers, code may allocate, copy, fill and wait
///   throws      cuda_error; a later call throws the error of a kernel. std::invalid_argument for more than 2^31 - 1
///               blocks, for example for one_bit(options::row) of that many rows
class cuda_executor {
 public:
  using space = device_space;
  static constexpr std::uint32_t items_per_block = 2048;
  static constexpr char const* name() { return "cuda"; }

  cuda_executor() = default;
  explicit cuda_executor(cudaStream_t stream) : stream_(stream) {}
  /// The kernels, copies and fills of this executor go to the recorder. `stream`, `upload`, `download` and `wait` first
  /// launch them.
  cuda_executor(cudaStream_t stream, detail::cuda_recorder& recorder) : stream_(stream), recorder_(&recorder) {}

  cudaStream_t stream() const {
    launch_recorded();
    return stream_;
  }

#if defined(__CUDACC__)
  template <class F>
  void for_each_index(std::uint64_t n, F const& f) const;
  template <class Body>
  void for_each_block(std::uint64_t blocks, Body const& body) const;
#else
  template <class F>
  void for_each_index(std::uint64_t, F const&) const {
    explain_compiler<F>();
  }
  template <class Body>
  void for_each_block(std::uint64_t, Body const&) const {
    explain_compiler<Body>();
  }
#endif

  void copy(void* to, void const* from, std::size_t bytes) const {
    if (recorder_ != nullptr) return recorder_->copy(to, from, bytes);
    move(to, from, bytes, cudaMemcpyDeviceToDevice, "cudaMemcpyAsync within the device");
  }
  void upload(void* to, void const* from, std::size_t bytes) const {
    launch_recorded();
    move(to, from, bytes, cudaMemcpyHostToDevice, "cudaMemcpyAsync to the device");
  }
  void download(void* to, void const* from, std::size_t bytes) const {
    launch_recorded();
    move(to, from, bytes, cudaMemcpyDeviceToHost, "cudaMemcpyAsync from the device");
    wait();
  }
  void fill(void* to, std::byte value, std::size_t bytes) const {
    if (bytes == 0) return;
    if (recorder_ != nullptr) return recorder_->fill(to, value, bytes);
    check_cuda(cudaMemsetAsync(to, std::to_integer<int>(value), bytes, stream_), "cudaMemsetAsync");
  }
  void wait() const {
    launch_recorded();
    check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  int device_number() const {
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    return device;
  }
  /// True while a graph is being captured from the stream.
  bool is_capturing() const {
    auto status = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(stream_, &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

  void* allocate(std::size_t bytes) const {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
    return memory;
  }
  /// Waits until no kernel of any stream uses the memory, then frees it.
  void deallocate(void* memory, std::size_t) const noexcept { static_cast<void>(cudaFree(memory)); }

 private:
  void launch_recorded() const {
    if (recorder_ != nullptr) recorder_->launch();
  }
  void move(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, char const* call) const {
    if (bytes > 0) check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream_), call);
  }

#if !defined(__CUDACC__)
  template <class F>
  static void explain_compiler() {
    static_assert(
        sizeof(F) == 0,
        "pith: work on a CUDA stream is compiled by nvcc: move this call to a .cu file; a .cpp file may make, "
        "copy and free buffers");
  }
#endif

  cudaStream_t stream_ = nullptr;
  detail::cuda_recorder* recorder_ = nullptr;
};

static_assert(executor<cuda_executor> && !detail::host_executor<cuda_executor>);

/// Returns an executor for a stream that the caller owns.
inline cuda_executor on(cudaStream_t stream) { return cuda_executor(stream); }

}}  // namespace pith::PITH_ABI

#include <pith/exec/detail/cuda_lanes.hpp>
#include <pith/exec/detail/cuda_late_copy.hpp>
#if defined(__CUDACC__)
#include <pith/exec/cuda.cuh>
#endif
