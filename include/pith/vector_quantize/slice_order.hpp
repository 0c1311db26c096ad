// pith/vector_quantize/slice_order.hpp — the order in which the elements of a tensor or convolution fill slices.
#pragma once

#include <pith/config.hpp>
#include <pith/core/error.hpp>
#include <pith/core/team.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI {

/// A slice is a run of K elements that are consecutive in slice order. For most tensors, slice order is memory order.
/// For a convolution gradient with the layout OIHW (filters, depth, height, width), slice order is HWIO. In HWIO, the
/// elements of all filters at one height, width and depth are neighbours. This class computes indices and does not copy
/// the tensor.
///
///   requires    for oihw: filters, depth and window (height x width) must be at least 1, and there must be fewer than
///               2^31 filters (std::invalid_argument)
class slice_order {
 public:
  /// Makes the order that equals memory order, for a tensor of any layout.
  constexpr slice_order() = default;

  static slice_order oihw(std::uint64_t filters, std::uint64_t depth, std::uint64_t window) {
    detail::require(1 <= filters && filters < 1u << 31, "slice_order::oihw: filters must be in [1, 2^31), got ",
                    filters);
    detail::require(depth >= 1 && window >= 1, "slice_order::oihw: depth and window must be at least 1, got ", depth,
                    " and ", window);
    auto order = slice_order();
    order.filters_ = filters;
    order.depth_ = depth;
    order.window_ = window;
    return order;
  }

  constexpr bool is_plain() const { return filters_ == 0; }
  /// The number of filters. The value 0 means memory order.
  constexpr std::uint64_t filters() const { return filters_; }
  constexpr std::uint64_t depth() const { return depth_; }
  constexpr std::uint64_t window() const { return window_; }

  /// True if a tensor with n elements can have this order.
  constexpr bool fits(std::uint64_t n) const {
    if (is_plain()) return true;
    return n % filters_ == 0 && n / filters_ % depth_ == 0 && n / filters_ / depth_ == window_;
  }

  /// Returns the tensor index of element i in slice order.
  PITH_HD constexpr std::uint64_t operator()(std::uint64_t i) const {
    if (filters_ == 0) return i;
    return i % filters_ * (depth_ * window_) + row(i / filters_);
  }

  /// Calls f(i, place) for i < count, where `place` is the tensor index of element first + i in slice order. Takes only
  /// one division for each run of `filters_` elements.
  template <class Team, class F>
  PITH_HD void walk(Team const& team, std::uint64_t first, std::uint32_t count, F const& f) const {
    if (filters_ == 0) return team.for_each(count, [=](std::uint32_t i) { f(i, first + i); });
    auto const order = *this;
    auto const width = static_cast<std::uint32_t>(filters_), skipped = static_cast<std::uint32_t>(first % filters_);
    auto const stride = depth_ * window_;
    team.for_each_in(skipped + count, width, [=](std::uint32_t r) {
      auto const place = order.row(first / width + r);
      auto const before = r * width;
      return [=](std::uint32_t i) {
        if (i >= skipped) f(i - skipped, place + (i - before) * stride);
      };
    });
  }

  friend constexpr bool operator==(slice_order const&, slice_order const&) = default;

 private:
  /// Returns the tensor index of an element of the first filter: the element at depth r % depth() and window position
  /// r / depth().
  PITH_HD constexpr std::uint64_t row(std::uint64_t r) const { return r % depth_ * window_ + r / depth_; }

  std::uint64_t filters_ = 0, depth_ = 1, window_ = 1;
};

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
