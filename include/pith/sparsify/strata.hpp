// pith/sparsify/strata.hpp — one drawn of each of k equal strata, kept and put back: random_k and random_blocks.
#pragma once

#include <pith/core/call.hpp>
#include <pith/core/element.hpp>

#include <cstdint>

namespace pith::inline v0 {

/// Whether what is kept is multiplied by the inverse of its probability.
enum class scaling : std::uint8_t { none, unbiased };

namespace detail {

/// Stratum j of k is [j n / k, (j+1) n / k): one index is drawn from each, so that indices are distinct and ascend.
struct strata {
  draws random;
  std::uint64_t n, k;

  PITH_HD std::uint64_t first(std::uint64_t j) const { return j * n / k; }
  PITH_HD std::uint64_t width(std::uint64_t j) const { return first(j + 1) - first(j); }
  PITH_HD std::uint64_t index(std::uint64_t j) const { return first(j) + (random(j / 4).word[j % 4] * width(j) >> 32); }

  /// The width of the widest stratum, ceil(n / k).
  static double widest(std::uint64_t n, std::uint64_t k) { return n == 0 ? 1 : static_cast<double>((n + k - 1) / k); }
};

/// Keeps an element that is drawn from a stratum of `width` ...
template <class In, scaling Scaling>
struct keep_drawn {
  In const* x;
  In* values;

  /// What counts from an element on.
  PITH_HD keep_drawn behind(std::uint64_t drawn, std::uint64_t kept) const { return {x + drawn, values + kept}; }
  PITH_HD void operator()(std::uint64_t drawn, std::uint64_t kept, [[maybe_unused]] std::uint64_t width) const {
    if constexpr (Scaling == scaling::none) {
      values[kept] = x[drawn];
    } else {
      values[kept] = element_cast<In>(element_cast<accum<In>>(x[drawn]) * static_cast<accum<In>>(width));
    }
  }
};

/// ... and puts it back.
template <class In>
struct restore_drawn {
  In const* values;
  In* x;

  PITH_HD restore_drawn behind(std::uint64_t drawn, std::uint64_t kept) const { return {values + kept, x + drawn}; }
  PITH_HD void operator()(std::uint64_t drawn, std::uint64_t kept, std::uint64_t) const { x[drawn] = values[kept]; }
};

}  // namespace detail
}  // namespace pith::inline v0
