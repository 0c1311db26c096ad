// device_module.hpp — the part of the Python module that nvcc compiles.
#pragma once

#include <nanobind/nanobind.h>

namespace pith_torch {

/// Binds the communicators and exchanges of CUDA tensors.
void bind_device(nanobind::module_& m);
void bind_float_exchange_on_device(nanobind::module_& m);
void bind_bfloat16_exchange_on_device(nanobind::module_& m);

}  // namespace pith_torch
