// pith/vector/conv_shape.hpp — the sizes of a convolution's kernel, and slices for its gradient.
#pragma once

#include <pith/core/error.hpp>
#include <pith/vector/slice_order.hpp>

#include <cstdint>

namespace pith::inline v0 {

/// The memory layout of a convolution's kernel; the last letter is the fastest index. Output channels are filters,
/// input channels the depth.
enum class kernel_layout : std::uint8_t { oihw, hwio };

/// A convolution's kernel.
struct conv_shape {
  std::uint64_t filters = 1, depth = 1, height = 1, width = 1;
  kernel_layout layout = kernel_layout::oihw;

  constexpr std::uint64_t window() const { return height * width; }
  /// The number of elements at one place of the window; in HWIO they are contiguous.
  constexpr std::uint64_t place() const { return filters * depth; }
  constexpr std::uint64_t n() const { return place() * window(); }

  /// The order of slices, HWIO for either layout.
  slice_order order() const {
    return layout == kernel_layout::hwio ? slice_order() : slice_order::oihw(filters, depth, window());
  }

  /// Whether slices of K elements are whole places, so that element i of every slice belongs to the same two channels.
  /// Other slices also work, but are less correlated.
  constexpr bool is_aligned(std::uint64_t slice) const { return place() != 0 && slice % place() == 0; }

  /// q places, where q is the largest divisor of the window with at most `most` elements per slice; else one place.
  constexpr std::uint64_t usual_slice(std::uint64_t most = 1024) const {
    std::uint64_t places = 1;
    for (std::uint64_t q = 2; q <= window() && q * place() <= most; ++q) {
      if (window() % q == 0) places = q;
    }
    return places * place();
  }
};

}  // namespace pith::inline v0
