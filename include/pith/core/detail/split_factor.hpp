// pith/core/detail/split_factor.hpp — the factor of a sum in two parts, so that the sum does not overflow.
#pragma once

#include <pith/config.hpp>

#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The factor of a sum over ranks, as the product of two parts. Each value is multiplied by `before`, a power of two of
/// at most 1 / ranks, and the sum is multiplied by `after`. So the sum overflows only if a value does. Products with
/// `before` are exact, unless they are subnormal.
template <class A>
struct split_factor {
  A before, after;

  constexpr split_factor(A factor, std::uint64_t ranks) : before(1), after(factor) {
    for (; ranks > 1; ranks = (ranks + 1) / 2) before /= 2, after *= 2;
  }
};

}}}  // namespace pith::PITH_ABI::detail
