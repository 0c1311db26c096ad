// pith/sparsify/detail/density.hpp — the number of entries that a sparsifier keeps, computed from the density.
#pragma once

#include <pith/core/detail/float_environment.hpp>
#include <pith/core/error.hpp>

#include <cstdint>
#include <string>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// Throws if n >= 2^32, because indices have 32 bits.
inline void require_indexable(char const* method, std::uint64_t n) {
  require(n <= 0xffffffffu, method, ": a tensor must have at most 2^32 - 1 elements, got ", n, ": split the tensor");
}

/// The fraction of elements that a sparsifier keeps.
class density {
 public:
  density(char const* method, double fraction, char const* what = "density") : method_(method), fraction_(fraction) {
    require(fraction > 0 && fraction <= 1, method, ": ", what, " must be in (0, 1], got ", fraction);
  }

  /// The number of kept entries: max(1, floor(density n)), or 0 for an empty tensor. The product is rounded to nearest,
  /// even if the caller has set another rounding mode. `volatile` prevents the compiler from moving the product out of
  /// the scope in which the default rounding mode is set.
  std::uint64_t of(std::uint64_t n) const {
    require_indexable(method_, n);
    auto const environment = default_float_environment();
    double volatile const fraction = fraction_;
    double volatile const product = fraction * static_cast<double>(n);
    auto const k = static_cast<std::uint64_t>(product);
    return n == 0 ? 0 : k == 0 ? 1 : k;
  }

  std::string text() const { return shortest(fraction_); }

 private:
  char const* method_;
  double fraction_;
};

}}}  // namespace pith::PITH_ABI::detail
