// pith/core/shape.hpp — tensor shapes.
#pragma once

#include <pith/core/error.hpp>

#include <cstdint>
#include <stdexcept>

namespace pith { inline namespace PITH_ABI {

/// The shape of a tensor with `n` elements. A matrix has `rows` rows of `n / rows` elements in row-major order. A stage
/// whose rate_form (codec/capability.hpp) is `bounded` emits at most `capacity` values, so a smaller capacity makes the
/// payload smaller.
struct shape {
  std::uint64_t n = 0;
  std::uint64_t rows = 1;
  std::uint64_t capacity = ~std::uint64_t{0};

  constexpr std::uint64_t columns() const { return rows == 0 ? 0 : n / rows; }
  friend constexpr bool operator==(shape const&, shape const&) = default;
};

constexpr shape vector(std::uint64_t n) { return {n}; }

/// The shape of a matrix in row-major order. The rows of a convolution are its output channels, and the rows of an
/// embedding are its tokens. Throws std::invalid_argument if rows x columns is 2^64 or more.
constexpr shape matrix(std::uint64_t rows, std::uint64_t columns) {
  if (columns > 0 && rows > ~std::uint64_t{0} / columns) {
    throw std::invalid_argument(
        detail::sentence("matrix: rows x columns must be below 2^64, got ", rows, " x ", columns));
  }
  return {rows * columns, rows};
}

}}  // namespace pith::PITH_ABI
