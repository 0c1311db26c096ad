// tests/support/device.hpp — a stream that ends with its test, and codecs on it beside the same on seq.
#pragma once

#include <pith/exec/seq.hpp>
#include <pith/exec/stream.hpp>

#include <doctest/doctest.h>

#include "support/executed.hpp"
#include "support/summed.hpp"

namespace support {

/// A stream that does not wait for the default one.
class own_stream {
 public:
  own_stream() { pith::detail::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "new stream"); }
  own_stream(own_stream const&) = delete;
  own_stream& operator=(own_stream const&) = delete;
  ~own_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Two steps on the device make the bytes of two on the host.
template <class In>
struct same_on_device {
  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    auto const stream = own_stream();
    CHECK(executed<In>(pith::on(stream.get()), codec, dims) == executed<In>(pith::seq, codec, dims));
  }
};

/// So does the mean of several ranks.
template <class In>
struct same_sum_on_device {
  template <class C>
  void operator()(C const& codec, pith::shape dims) const {
    CAPTURE(codec.name());
    auto const stream = own_stream();
    CHECK(summed<In>(pith::on(stream.get()), codec, dims) == summed<In>(pith::seq, codec, dims));
  }
};

}  // namespace support
