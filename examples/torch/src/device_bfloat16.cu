// device_bfloat16.cu — compiles codecs and exchanges of bfloat16 for CUDA tensors.
#include "device_exchange.cuh"
#include "device_module.hpp"

void pith_torch::bind_bfloat16_exchange_on_device(nb::module_& m) {
  bind_exchange<pith::bfloat16, on_device>(m, "CudaBFloat16Exchange");
}
