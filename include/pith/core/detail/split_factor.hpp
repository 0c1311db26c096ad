// pith/core/detail/split_factor.hpp — the factor of a sum in two parts, so that the sum does not overflow.
#pragma once

#include <pith/core/element.hpp>

#include <concepts>
#include <cstdint>

namespace pith { inline namespace PITH_ABI { namespace detail {

/// The factor of a sum over ranks, as the product of two parts. Each value is multiplied by `before`, a power of two of
/// at most 1 / ranks, and the sum is multiplied by `after`. So the sum overflows only if a value does. Products with
/// `before` are exact, unless they are subnormal.
template <class A>
struct split_factor {
  A before, after;
  /// For some numbers of ranks, such as 7, `after` is rounded up so far that the mean of the largest finite numbers is
  /// infinite.
  bool overflows;

  constexpr split_factor(A factor, std::uint64_t ranks) : before(1), after(factor), overflows(false) {
    auto largest = A{0};
    for (auto n = ranks; n > 1; n = (n + 1) / 2) before /= 2, after *= 2;
    for (std::uint64_t rank = 0; after > 1 && rank < ranks; ++rank) largest += before * largest_finite<A>;
    overflows = after / 2 * largest > largest_finite<A> / 2;
  }

  /// after * sum. If the sum is finite, the product is finite.
  PITH_HD A of(A sum) const { return overflows ? bounded_product(after, sum) : after * sum; }
};

template <class In>
struct bound_value {
  In* x;
  PITH_HD void operator()(std::uint64_t i) const { x[i] = bounded(x[i]); }
};

/// Sets infinite means to the largest finite number with their sign, if the mean of finite values may be infinite. Means of
/// half and bfloat16 are always finite.
template <class In, class E>
void bound_means(E const& exec, accum<In> factor, unsigned ranks, In* x, std::uint64_t n) {
  if constexpr (std::floating_point<In>) {
    if (split_factor(factor, ranks).overflows) exec.for_each_index(n, bound_value<In>{x});
  }
}

}}}  // namespace pith::PITH_ABI::detail
