// device_module.cu — the communicators of CUDA tensors.
#include "device_module.hpp"
#include "device_process_group.hpp"
#include "local_device_communicator.hpp"

#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <utility>

namespace pith_torch {
namespace {

std::unique_ptr<device_communicator> on_process_group(nb::object collectives, int device) {
  return std::make_unique<device_process_group>(std::move(collectives), device);
}
std::unique_ptr<device_communicator> among_local_ranks(pith::any_communicator& host) {
  return std::make_unique<local_device_communicator>(host);
}

}  // namespace

void bind_device(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<device_communicator>(m, "CudaCommunicator");
  m.def("cuda_communicator", &on_process_group, "collectives"_a, "device"_a);
  m.def("local_cuda_communicator", &among_local_ranks, nb::keep_alive<0, 1>(), "communicator"_a);
  bind_float_exchange_on_device(m);
  bind_bfloat16_exchange_on_device(m);
}

}  // namespace pith_torch
