// pith/exchange/tensor_spec.hpp — the name and shape of a tensor.
#pragma once

#include <pith/core/shape.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// The name and shape of a model's tensor.
struct tensor_spec {
  std::string name;
  shape dims;
};

}}  // namespace pith::PITH_ABI
