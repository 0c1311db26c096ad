// pith/vector_quantize/slice_samples.hpp — slices of collected tensors, which are the samples of a fit.
#pragma once

#include <pith/core/detail/host_bytes.hpp>
#include <pith/core/element.hpp>
#include <pith/core/error.hpp>
#include <pith/core/span.hpp>
#include <pith/core/team.hpp>
#include <pith/vector_quantize/slice_order.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith { inline namespace PITH_ABI {

/// Selects the slices of a tensor that become samples.
enum class sampled : std::uint8_t {
  all_slices,   ///< all slices
  first_slice,  ///< only the first slice of each tensor, as in GradiVeQ's paper; takes less memory and time
};

/// Collects tensors with n elements, on the host. Each tensor is divided into slices of K elements. The last slice is
/// padded with zeros.
///
///   requires    K >= 1; a slice order that fits n elements (std::invalid_argument)
///   state       n elements of A per tensor, or K elements with sampled::first_slice; after the first tensor, also the sum
///               of all tensors in double
template <std::floating_point A>
class slice_samples {
 public:
  slice_samples(std::uint64_t n, std::uint64_t slice, slice_order order = {}, sampled which = sampled::all_slices)
      : n_(n), slice_(slice), order_(order), which_(which) {
    detail::require(slice >= 1, "slice_samples: slice must be at least 1, got ", slice);
    detail::require(order.fits(n), "slice_samples: order must be of ", n, " elements, got ", order.filters(), " x ",
                    order.depth(), " x ", order.window());
  }

  std::uint64_t n() const { return n_; }
  std::uint64_t slice() const { return slice_; }
  slice_order const& order() const { return order_; }
  std::uint64_t slices() const { return detail::blocks_for(n_, slice_); }
  /// The number of slices per tensor that are kept as samples.
  std::uint64_t kept_slices() const {
    return which_ == sampled::all_slices ? slices() : std::min<std::uint64_t>(slices(), 1);
  }

  std::uint64_t count() const { return count_; }

  template <real In>
  void add(span<In const> x) {
    detail::require(x.size() == n_, "slice_samples::add: x must have ", n_, " elements, got ", x.size());
    auto const kept = kept_slices() * slice_, first = values_.size();
    values_.resize(first + kept);
    sums_.resize(slices() * slice_);
    for (std::uint64_t i = 0; i < n_; ++i) {
      auto const value = element_cast<A>(x[order_(i)]);
      sums_[i] += static_cast<double>(value);
      if (i < kept) values_[first + i] = value;
    }
    ++count_;
  }

  A const* at(std::uint64_t t, std::uint64_t s) const { return values_.data() + (t * kept_slices() + s) * slice_; }

  /// The mean of all added tensors, in slice order and padded to whole slices. At least one tensor must have been added.
  std::vector<double> mean() const {
    auto mean = sums_;
    for (auto& v : mean) v /= static_cast<double>(count_);
    return mean;
  }

  void clear() {
    values_ = {};
    sums_ = {};
    count_ = 0;
  }

  /// Save and load the samples. Sums of no tensors are saved as zeros. `load` throws std::invalid_argument if the saved sizes
  /// differ from the sizes of this object, or if a number is not finite.
  void save(detail::byte_writer& to) const {
    to.put(count_);
    to.put_all(values_);
    to.put_all(count_ > 0 ? sums_ : std::vector<double>(slices() * slice_));
  }
  void load(detail::byte_reader& from) {
    auto const count = from.take<std::uint64_t>();
    auto values = from.take_all<A>();
    auto sums = from.take_all<double>();
    auto const kept = kept_slices() * slice_, summed = slices() * slice_;
    detail::require(sums.size() == summed && (kept == 0 ? values.empty() : values.size() / kept == count) &&
                        values.size() == count * kept,
                    "gradiveq::import_state: samples of ", count, " tensors must have ", kept, " values each and ",
                    summed, " sums, got ", values.size(), " values and ", sums.size(), " sums");
    auto const is_right = [&](auto v) { return count > 0 ? std::isfinite(v) : v == 0 && !std::signbit(v); };
    detail::require(std::ranges::all_of(values, is_right) && std::ranges::all_of(sums, is_right),
                    "gradiveq::import_state: samples must be finite numbers, and sums of no samples must be 0");
    count_ = count;
    values_ = std::move(values);
    sums_ = count > 0 ? std::move(sums) : std::vector<double>();
  }

 private:
  std::uint64_t n_, slice_, count_ = 0;
  slice_order order_;
  sampled which_;
  std::vector<A> values_;
  std::vector<double> sums_;
};

}}  // namespace pith::PITH_ABI
