// device_exchange.cuh — exchanges of CUDA tensors, whose codecs several source files compile.
#pragma once

#include "device_codecs.cuh"
#include "device_communicator.hpp"
#include "exchange.hpp"

#include <pith/exchange/gradient_exchange.hpp>

#include <cstdint>
#include <string>

namespace pith_torch {

/// Gradients on a CUDA device. An exchange enqueues its work on a stream of its caller.
struct on_device {
  using communicator = device_communicator;
  using device = nb::device::cuda;
  template <class In>
  using exchange = pith::gradient_exchange<In, pith::cuda_executor, device_communicator>;

  static pith::cuda_executor executor(std::uintptr_t stream) {
    return pith::on(reinterpret_cast<cudaStream_t>(stream));
  }
  template <class In>
  static pith::any_codec<In, pith::cuda_executor> parse(std::string const& text) {
    return pith::parse<In, pith::cuda_executor>(text, device_methods());
  }
};

}  // namespace pith_torch
