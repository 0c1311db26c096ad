// pith/vector/conv_shape.hpp — the sizes of a convolution's kernel, and the slices that suit its gradient.
#pragma once

#include <pith/core/error.hpp>
#include <pith/vector/slice_order.hpp>

#include <cstdint>

namespace pith::inline v0 {

/// How a convolution's kernel lies in memory, the last letter being the fastest: output channels are filters, input
/// channels the depth.
enum class kernel_layout : std::uint8_t { oihw, hwio };

/// A convolution's kernel.
struct conv_shape {
  std::uint64_t filters = 1, depth = 1, height = 1, width = 1;
  kernel_layout layout = kernel_layout::oihw;

  constexpr std::uint64_t window() const { return height * width; }
  /// The elements at one place of the window: in HWIO they are neighbours.
  constexpr std::uint64_t place() const { return filters * depth; }
  constexpr std::uint64_t n() const { return place() * window(); }

  /// In HWIO, whichever way it lies.
  slice_order order() const {
    return layout == kernel_layout::hwio ? slice_order() : slice_order::oihw(filters, depth, window());
  }

  /// Whether slices of K elements are whole places, so that element i of every slice is of the same two channels.
  /// Others work too, and are correlated less.
  constexpr bool is_aligned(std::uint64_t slice) const { return place() != 0 && slice % place() == 0; }

  /// q places, q being the largest divisor of the window for which a slice has at most `most` elements; or one place.
  constexpr std::uint64_t usual_slice(std::uint64_t most = 1024) const {
    std::uint64_t places = 1;
    for (std::uint64_t q = 2; q <= window() && q * place() <= most; ++q) {
      if (window() % q == 0) places = q;
    }
    return places * place();
  }
};

}  // namespace pith::inline v0
