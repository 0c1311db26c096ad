// pith/exchange/tensor_spec.hpp — the name, shape and element type of a tensor.
#pragma once

#include <pith/core/shape.hpp>
#include <pith/core/transfer.hpp>

#include <string>

namespace pith { inline namespace PITH_ABI {

/// The name and shape of a model's tensor.
struct tensor_spec {
  std::string name;
  shape dims;
  /// The type of the gradient's elements, which mixed_exchange needs. `bytes` stands for the type of the exchange.
  element_kind kind = element_kind::bytes;
};

}}  // namespace pith::PITH_ABI
