// tests/support/bases.hpp — bases that are fitted by the host's compiler alone.
#pragma once

#include <pith/vector_quantize/pca_basis.hpp>

#include <cstdint>

namespace support {

/// Six components of slices of `n` correlated elements in an order.
pith::pca_basis basis_of(std::uint64_t n, std::uint64_t slice, pith::slice_order const& order);

}  // namespace support
