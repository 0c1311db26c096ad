// pith/quantize/detail/largest_terms.hpp — the largest magnitude of a bucket, as a rule's statistic.
#pragma once

#include <pith/core/detail/summation.hpp>
#include <pith/core/element.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// A rule that derives from this class computes its scale from the largest magnitude of a bucket.
struct largest_terms {
  template <class A>
  PITH_HD double measure(A x) const {
    return magnitude(static_cast<double>(x));
  }
  PITH_HD double merge(double a, double b) const { return larger{}(a, b); }

  /// The merge of the terms of p[0], ..., p[width - 1]. A maximum of bit patterns takes one instruction per vector, in
  /// any order, and is NaN if a value is NaN.
  template <class A, class Width>
  PITH_HD static double largest(A const* p, Width width) {
    bits_of<A> most = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      auto const size = bits_as<bits_of<A>>(magnitude(p[i]));
      most = size > most ? size : most;
    }
    return static_cast<double>(bits_as<A>(most));
  }
};

}}}  // namespace pith::PITH_ABI::detail
