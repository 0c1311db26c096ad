// pith/lowrank/orthonormalize.hpp — orthonormal columns by Gram-Schmidt, twice, safe on dependent and zero columns.
#pragma once

#include <pith/core/executor.hpp>
#include <pith/core/summation.hpp>

#include <cmath>
#include <cstdint>

namespace pith::inline v0::detail {

/// Term i of the dot product of columns a and b of a matrix of `rank` columns.
template <class A>
struct column_product {
  A const* p;
  std::uint64_t rank, a, b;
  PITH_HD double operator()(std::uint64_t i) const {
    return static_cast<double>(p[i * rank + a]) * static_cast<double>(p[i * rank + b]);
  }
};

/// p_b -= (p_a . p_b) p_a.
template <class A>
struct subtract_projection {
  A* p;
  double const* product;
  std::uint64_t rank, a, b;
  PITH_HD void operator()(std::uint64_t i) const {
    p[i * rank + b] =
        static_cast<A>(static_cast<double>(p[i * rank + b]) - *product * static_cast<double>(p[i * rank + a]));
  }
};

/// p_c /= |p_c|, or zero where all but a rounding error of the column was taken away.
template <class A>
struct normalize {
  A* p;
  double const* before;
  double const* after;
  std::uint64_t rank, c;
  PITH_HD void operator()(std::uint64_t i) const {
    constexpr double rounding = sizeof(A) == 8 ? 1e-26 : 1e-10;  // squared, with room for the sums
    auto const kept = !(*after <= rounding * *before);
    p[i * rank + c] = kept ? static_cast<A>(static_cast<double>(p[i * rank + c]) / sqrt(*after)) : A{0};
  }
};

template <class E>
std::size_t orthonormalize_scratch_bytes(E const&, std::uint64_t rows) {
  return scratch_for<double>(3) + detail::reduce_scratch_bytes<double>(rows);
}

/// Makes the columns of P (rows x rank, row by row) orthonormal. A column that depends on those before it becomes zero;
/// NaN spreads. Nothing is read on the host.
template <class E, class A>
void orthonormalize(E const& exec, A* p, std::uint64_t rows, std::uint64_t rank, workspace_on<E>& ws) {
  auto const scope = ws.mark();
  auto* const numbers = ws.template take<double>(3).data;
  double* const before = numbers;
  double* const after = numbers + 1;
  double* const product = numbers + 2;
  for (std::uint64_t c = 0; c < rank; ++c) {
    detail::reduce_into(exec, before, rows, column_product<A>{p, rank, c, c}, plus{}, 0.0, ws);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::uint64_t a = 0; a < c; ++a) {
        detail::reduce_into(exec, product, rows, column_product<A>{p, rank, a, c}, plus{}, 0.0, ws);
        exec.for_each_index(rows, subtract_projection<A>{p, product, rank, a, c});
      }
    }
    detail::reduce_into(exec, after, rows, column_product<A>{p, rank, c, c}, plus{}, 0.0, ws);
    exec.for_each_index(rows, normalize<A>{p, before, after, rank, c});
  }
}

}  // namespace pith::inline v0::detail
