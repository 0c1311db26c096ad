// device_float.cu — compiles codecs and exchanges of float for CUDA tensors.
#include "device_exchange.cuh"
#include "device_module.hpp"

void pith_torch::bind_float_exchange_on_device(nb::module_& m) {
  bind_exchange<float, on_device>(m, "CudaFloatExchange");
}
