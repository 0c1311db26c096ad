// tests/support/own_stream.hpp — a CUDA stream that is destroyed at the end of its test.
#pragma once

#include <pith/exec/cuda_executor.hpp>

namespace support {

/// A stream that does not wait for the default stream.
class own_stream {
 public:
  own_stream() { pith::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "new stream"); }
  own_stream(own_stream const&) = delete;
  own_stream& operator=(own_stream const&) = delete;
  ~own_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace support
