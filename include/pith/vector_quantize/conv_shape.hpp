// pith/vector_quantize/conv_shape.hpp — the shape of a convolution kernel, and suitable slices for the kernel's gradient.
#pragma once

#include <pith/core/error.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// The memory layout of a convolution kernel: the order of output channel (o), input channel (i), height (h) and width
/// (w). The last index varies fastest. In `conv_shape`, `filters` is the number of output channels, and `depth` is the
/// number of input channels.
enum class kernel_layout : std::uint8_t { oihw, hwio };

struct conv_shape {
  std::uint64_t filters = 1, depth = 1, height = 1, width = 1;
  kernel_layout layout = kernel_layout::oihw;

  constexpr std::uint64_t window() const { return height * width; }
  /// The number of kernel elements at one position (height and width) of the window. In the layout HWIO, these elements
  /// are contiguous.
  constexpr std::uint64_t place() const { return filters * depth; }
  constexpr std::uint64_t n() const { return place() * window(); }

  /// The order in which the kernel's elements fill slices. This order is HWIO for both layouts.
  slice_order order() const {
    return layout == kernel_layout::hwio ? slice_order() : slice_order::oihw(filters, depth, window());
  }

  /// True if a slice consists of all elements at one or more window positions. The i-th elements of all slices then
  /// belong to the same pair of an input channel and an output channel. Slices of other lengths also work, but are less
  /// correlated.
  constexpr bool is_aligned(std::uint64_t slice) const { return place() != 0 && slice % place() == 0; }

  /// The slice length that `gradiveq` uses by default. A slice of this length contains the elements at q window
  /// positions, where q is a divisor of the window size. The number q is the largest divisor for which a slice has at
  /// most `most` elements, or 1 if no such divisor exists.
  constexpr std::uint64_t usual_slice(std::uint64_t most = 1024) const {
    std::uint64_t places = 1;
    for (std::uint64_t q = 2; q <= window() && q * place() <= most; ++q) {
      if (window() % q == 0) places = q;
    }
    return places * place();
  }
};

}}  // namespace pith::PITH_ABI
